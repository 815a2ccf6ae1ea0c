"""Questions about small stories: one memory network for all bAbI tasks.

The network of Sukhbaatar et al. (2015), three hops, trained jointly on the 1k setting:
1,000 questions of each task, those of the folder that `datasets.babi.find` finds.
"""

import time
from pathlib import Path

import keras
import numpy as np

from keras_attention import recipes, text
from keras_attention.datasets import babi
from keras_attention.models import LinearStart, MemoryNetwork
from keras_attention.models.memory_network import words
from keras_attention.recipes import portable
from keras_attention.recipes.hops import show_hops

FILE = "babi.keras"
SEED = 0
EPOCHS = 100
LINEAR_EPOCHS = 20
LEARNING_RATE = 0.01
RESTARTS = 1
BATCH_SIZE = 32
MEMORY_SIZE = 50
EMPTY_SLOTS = 1
# Numbers of sentences that stories are padded to: few, since each is compiled on its own.
SIZES = (4, 8, 12, 24, MEMORY_SIZE)


class Batches(keras.utils.PyDataset):
    """Shuffled batches of equal size, of stories of about the same length.

    Args:
        inputs: What `MemoryNetwork.encode` returns.
        targets: What `MemoryNetwork.encode_answers` returns.
        seed: Integer for the shuffling.
    """

    def __init__(self, inputs, targets, seed):
        super().__init__()
        (self.stories, self.questions), self.targets = inputs, targets
        longest = self.stories.shape[1]
        self.sizes = [*(size for size in SIZES if size < longest), longest]
        lengths = (self.stories != text.PADDING).any(axis=-1).sum(axis=-1)
        self.size_of = np.searchsorted(self.sizes, lengths)
        self.generator = np.random.default_rng(seed)
        self.on_epoch_end()

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        size, chosen = self.batches[index]
        inputs = self.stories[chosen, : self.sizes[size]], self.questions[chosen]
        return inputs, self.targets[chosen]

    def on_epoch_end(self):
        self.batches = []
        for size in np.unique(self.size_of):
            (places,) = np.nonzero(self.size_of == size)
            self.generator.shuffle(places)
            number = -(-len(places) // BATCH_SIZE)
            rows = np.resize(places, (number, BATCH_SIZE))
            self.batches += [(size, row) for row in rows]
        self.generator.shuffle(self.batches)
        sizes = [size for size, _ in self.batches]
        self.batches = recipes.extremes_first(self.batches, sizes)


def train(output, epochs=EPOCHS, limit=None, data=None, restarts=RESTARTS, verbose=2):
    """Trains the network and measures it on the test questions.

    Args:
        output: The folder for `babi.keras` and `babi.json`.
        epochs: How often to go through the questions, after a fifth of that without
            softmaxes.
        limit: Use only so many questions of each task.
        data: The folder of the tasks' files, see `datasets.babi.find`.
        restarts: Of so many trainings, the one with the lowest training error is kept.
        verbose: As in `keras.Model.fit`.

    Returns:
        The figures: what `evaluate` returns.
    """
    output = Path(output)
    output.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    parts = load(data, limit)
    training = [question for train, _ in parts.values() for question in train]

    def save(model):
        portable.save(recipes.without_optimizer(model), output / FILE)

    model = create(vocabulary_of(training), embedding_dim=50)
    runs = fit_restarts(model, training, range(restarts), epochs, save, verbose=verbose)
    minutes = round((time.monotonic() - start) / 60, 1)
    figures = evaluate(limit, output, data)
    settings = {
        "epochs": [epochs // 5, epochs],
        "seeds": list(range(restarts)),
        "training_errors": [round(error, 2) for error in runs],
        "minutes": minutes,
        "backend": keras.backend.backend(),
    }
    recipes.write_description("babi", output, _description(model, parts, figures, settings))
    return figures


def load(data=None, limit=None):
    """`{task: (train, test)}` of all tasks, with `limit` questions in each part."""
    return {task: babi.load(task, data, limit or babi.LIMIT) for task in babi.tasks(data)}


def vocabulary_of(questions):
    """All words, and the answers, in alphabetical order.

    >>> vocabulary_of([babi.Question(["Mary ran."], "Who ran?", "mary", [0])])
    ['mary', 'ran', 'who']
    """
    found = {question.answer for question in questions}
    for story, asked, _, _ in questions:
        found.update(*map(words, [*story, asked]))
    return sorted(found)


def create(vocabulary, embedding_dim=20, hops=3, noise=0.1):
    """The network, not trained yet."""
    return MemoryNetwork(
        vocabulary,
        embedding_dim=embedding_dim,
        hops=hops,
        memory_size=MEMORY_SIZE,
        noise=noise,
        seed=SEED,
        empty_slots=EMPTY_SLOTS,
    )


def encode(model, questions):
    """Inputs and targets, of stories cut to their latest sentences."""
    stories = [question.story[-MEMORY_SIZE:] for question in questions]
    inputs = model.encode(stories, [question.question for question in questions])
    return inputs, model.encode_answers([question.answer for question in questions])


def fit_restarts(
    model, questions, seeds, epochs, after_best=None, after_each=None, verbose=0
):
    """Trains from several starts, and leaves the model with the best one's weights.

    One model is trained again and again, so that it is compiled once.

    Args:
        model: What `create` returns.
        questions: A list of `Question`.
        seeds: An integer for each start.
        epochs: As in `train`.
        after_best: A function that is called with the model when it is the best so far.
        after_each: A function that is called with the model at each end.
        verbose: As in `keras.Model.fit`.

    Returns:
        The training error in percent of each start.
    """
    model.build(None)
    inputs, targets = encode(model, questions)
    errors, best = [], None
    for seed in seeds:
        keras.utils.set_random_seed(seed)
        start_anew(model, seed)
        fit(model, Batches(inputs, targets, seed), epochs, verbose)
        errors.append(error_on(model, inputs, targets))
        if errors[-1] == min(errors):
            best = model.get_weights()
            if after_best:
                after_best(model)
        if after_each:
            after_each(model)
    model.set_weights(best)
    return errors


def fit(model, batches, epochs, verbose=0):
    """Trains as the paper did."""
    linear = compile_as_published(model, len(batches), epochs)
    model.fit(
        batches,
        epochs=linear + epochs,
        shuffle=False,
        verbose=verbose,
        callbacks=[LinearStart(linear)],
    )


def compile_as_published(model, steps, epochs):
    """The paper's rates: .005 while linear, then .01, halved three times.

    Args:
        model: What `create` returns.
        steps: Batches in an epoch.
        epochs: As in `train`.

    Returns:
        The number of epochs to be linear for, before the others.
    """
    linear = epochs // 5
    cuts = [linear * steps + k * epochs * steps // 4 for k in range(4)]
    rates = [LEARNING_RATE / 2, *(LEARNING_RATE / 2**k for k in range(4))]
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay(cuts, rates)
    if model.compiled:
        model.optimizer.iterations.assign(0)
    else:
        # Many small steps: only JAX compiles them in seconds.
        model.compile_for_training(
            keras.optimizers.SGD(schedule, global_clipnorm=40.0),
            jit_compile=keras.backend.backend() == "jax",
        )
    return linear


def start_anew(model, seed):
    """Gives a model the first weights of a seed."""
    other = type(model).from_config({**model.get_config(), "seed": seed})
    other.build(None)
    model.set_weights(other.get_weights())


def error_on(model, inputs, targets):
    """The share of encoded questions that a model answers wrongly, in percent."""
    said = model.predict(inputs, 250, verbose=0).argmax(axis=-1)
    return 100 * float(np.mean(said != targets))


def evaluate(limit=None, directory=None, data=None):
    """Measures the network on the test questions.

    Args:
        limit: Use only so many of each task's 1,000.
        directory: Another folder than `saved_models`.
        data: The folder of the tasks' files, see `datasets.babi.find`.

    Returns:
        A dict of errors in percent: `mean_error` over the tasks, and `errors` by task.
    """
    model = keras.models.load_model(recipes.path(FILE, directory))
    errors = {
        str(task): error(model, test) for task, (_, test) in load(data, limit).items()
    }
    mean = sum(errors.values()) / len(errors)
    return {"mean_error": round(mean, 2), "errors": errors}


def error(model, questions):
    """The share of questions that a model answers wrongly, in percent."""
    said = model.answer(
        [question.story for question in questions], [q.question for q in questions]
    )
    pairs = zip(said, questions, strict=True)
    wrong = sum(answer != question.answer for answer, question in pairs)
    return round(100 * wrong / len(questions), 2)


def show(story, plot=None, html=None, directory=None):
    """Prints the answer to a question, and which sentences each hop, 1 to 3, looked at.

    Args:
        story: Sentences, the last of them the question, such as "Mary went to the
            garden. John went to the office. Where is Mary?"
        plot: A file name, such as `"story.png"`, for the same as a picture.
        html: A file name, such as `"story.html"`, for an interactive page.
        directory: Another folder than `saved_models`.

    Raises:
        ValueError: If there is no story or no question.
    """
    title, weights, sentences = look(story, directory)
    show_hops(title, weights, sentences, plot, html)


def look(story, directory=None):
    """The answer to a question, and which sentences each hop looked at.

    Args:
        story: As for `show`.
        directory: Another folder than `saved_models`.

    Returns:
        `(title, weights, sentences)`, the weights `(hops, sentences)`.

    Raises:
        ValueError: If there is no story or no question.
    """
    *sentences, question = text.split_sentences(story) or [""]
    if not sentences or not question.endswith("?"):
        raise ValueError(
            "Expected sentences and then a question, such as 'Mary went to the garden. "
            f"Where is Mary?' Received: {story!r}"
        )
    model = keras.models.load_model(recipes.path(FILE, directory))
    logits, weights = model(
        model.encode([sentences], [question]), return_attention_scores=True
    )
    answer = model.vocabulary[int(keras.ops.argmax(logits[0]))]
    weights = keras.ops.convert_to_numpy(weights)[0]
    return f"{question} {answer}", weights, sentences


def _description(model, parts, figures, settings):
    questions = sum(len(train) for train, _ in parts.values())
    return {
        "model": (
            f"MemoryNetwork (Sukhbaatar et al., 2015): {model.hops} hops, dimension "
            f"{model.embedding_dim}, trained jointly, {model.count_params():,} weights"
        ),
        "data": (
            f"bAbI, {len(parts)} tasks ({', '.join(map(str, parts))}), 1k setting: "
            f"{questions:,} questions to train"
        ),
        "figures": figures,
        "training": settings,
        "command": "python -m keras_attention train babi --output saved_models",
    }
