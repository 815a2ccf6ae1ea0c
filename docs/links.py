"""Pages that stand elsewhere in the repository, with links that hold on the site too."""

import re
from pathlib import Path

INCLUDE = re.compile(r'^--8<-- "(.+)"$', re.MULTILINE)
LINK = re.compile(r"(?<!!)\[([^\[\]]+)\]\((?!https?:|#)([^)#]+)[^)]*\)")
OURS = re.compile(r'(\]\(|src="|href=")docs/')


def on_page_markdown(markdown, config, **kwargs):
    """A page of one such line is that file: mkdocs calls this for each page."""
    found = INCLUDE.fullmatch(markdown.strip())
    if not found:
        return markdown
    folder = Path(config.docs_dir) / Path(found[1]).parent

    def settle(link):
        """What the site does not have, such as a notebook, is named without a link."""
        return link[0] if (folder / link[2]).exists() else link[1]

    return LINK.sub(settle, OURS.sub(r"\1", Path(found[1]).read_text()))
