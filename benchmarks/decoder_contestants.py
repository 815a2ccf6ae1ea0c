"""The decoders that `contestants.py` measures: a training step, greedy and beam search.

A GRU that asks with its previous state and reads additive attention to a memory of as many
steps, as wide: `decoder-b64-t32-d256` is a pass forward and back over given targets,
`greedy-...-forward` and `beam-...-forward` (5 beams) search for a sequence of each memory.
All have the same weights and find the same; no sequence ends before the last step.
"""

import numpy as np

WORDS, START, END, BEAMS = 2000, 1, 2, 5
SEARCHES = ("greedy", "beam")


def numbers(case):
    """The weights of all contestants, by name."""
    rng, depth = np.random.default_rng(1), case.depth

    def matrix(*shape):
        return (rng.normal(size=shape) * shape[0] ** -0.5).astype("float32")

    never = np.where(np.arange(WORDS) == END, -1e9, 0).astype("float32")
    return {
        "embedding": matrix(WORDS, depth) * WORDS**0.5,
        "query": matrix(depth, depth),
        "key": matrix(depth, depth),
        "v": matrix(depth, 1) * 4,
        "kernel": matrix(2 * depth, 3 * depth),
        "recurrent": matrix(depth, 3 * depth),
        "out": matrix(depth, WORDS) * 4,
        "never": never,
    }


def operations(case):
    """Additions and multiplications of the products of matrices, and of pairs of steps."""
    rows = case.batch * case.length * (BEAMS if case.kind == "beam" else 1)
    per_row = 2 * (9 + 1) * case.depth**2 + 8 * case.length * case.depth
    keys = 2 * case.batch * case.length * case.depth**2
    if case.kind == "decoder":
        return 3 * (rows * per_row + keys)
    return rows * (per_row + 2 * case.depth * WORDS) + keys


def ours(case):
    """Function and layers: `AttentionDecoder`, and the searches over its step."""
    import keras

    from keras_attention import AttentionDecoder, beam_search, greedy_search

    given, depth = numbers(case), case.depth
    decoder = AttentionDecoder(keras.layers.GRUCell(depth), "additive")
    decoder.build((None, None, depth), (None, None, depth))
    decoder.cell.set_weights(_of_cell(given))
    score = [given["query"], given["key"], given["v"][:, 0]]
    decoder.attention.set_weights(score)
    if case.kind == "decoder":
        return decoder, [decoder]
    embedding, out = _ends(given)

    def step(tokens, states, context):
        output, weights, states = decoder.step(embedding(tokens), states, context)
        return out(output), weights, states

    def search(memory):
        batch = memory.shape[0]
        task = dict(
            step=step,
            states=decoder.get_initial_state(batch),
            start_tokens=np.full(batch, START),
            end_token=END,
            max_length=case.length,
            context=decoder.prepare_memory(memory),
        )
        if case.kind == "beam":
            found = beam_search(width=BEAMS, **task)
        else:
            found = greedy_search(**task)
        return found.tokens, found.log_probs, found.alignments

    return search, [decoder, embedding, out]


class KerasDecoder:
    """What tutorials write around `keras.layers.AdditiveAttention`.

    Its matrices are layers of their own, `W1` and `W2` there.
    """

    def __init__(self, case):
        import keras

        self.given, self.case = numbers(case), case
        self.cell = keras.layers.GRUCell(case.depth)
        self.query, self.key = (
            keras.layers.Dense(case.depth, use_bias=False) for _ in range(2)
        )
        self.attention = keras.layers.AdditiveAttention()
        depth = case.depth
        self.cell.build((None, 2 * depth))
        self.query.build((None, None, depth))
        self.key.build((None, None, depth))
        self.attention.build([(None, None, depth)] * 2)
        self.cell.set_weights(_of_cell(self.given))
        self.query.set_weights([self.given["query"]])
        self.key.set_weights([self.given["key"]])
        self.attention.set_weights([self.given["v"][:, 0]])
        self.layers = [self.cell, self.query, self.key, self.attention]

    def step(self, x, state, key, memory):
        """The next state; the weights."""
        from keras import ops

        query = self.query(ops.expand_dims(state, 1))
        context, weights = self.attention(
            [query, memory, key], return_attention_scores=True
        )
        x = ops.concatenate([x, context[:, 0]], axis=-1)
        return self.cell(x, [state])[0], weights[:, 0]

    def start(self, memory):
        from keras import ops

        return ops.zeros((memory.shape[0], self.case.depth))

    def loop(self, targets, memory):
        """A Python loop over the steps, which a graph holds one after the other."""
        from keras import ops

        state, outputs = self.start(memory), []
        for t in range(targets.shape[1]):
            # As in tutorials; in a graph it is computed once.
            state, _ = self.step(targets[:, t], state, self.key(memory), memory)
            outputs.append(state)
        return ops.stack(outputs, axis=1)

    def as_rnn(self):
        """`keras.layers.RNN` around a cell that attends."""
        import keras

        decoder = self

        class Cell(keras.layers.Layer):
            state_size = decoder.case.depth

            def call(self, x, states):
                state, _ = decoder.step(x, states[0], self.keys, self.memory)
                return state, [state]

        cell = Cell()
        rnn = keras.layers.RNN(cell, return_sequences=True)

        def run(targets, memory):
            cell.memory, cell.keys = memory, decoder.key(memory)
            return rnn(targets)

        return run


def keras_loop(case):
    decoder = KerasDecoder(case)
    return decoder.loop, decoder.layers


def keras_rnn(case):
    decoder = KerasDecoder(case)
    return decoder.as_rnn(), decoder.layers


def keras_rerun(case):
    """As in KerasHub's samplers without a cache: the whole prompt anew for each token."""
    from keras import ops

    decoder = KerasDecoder(case)
    embedding, out = _ends(decoder.given)
    width = BEAMS if case.kind == "beam" else 1

    def search(memory):
        memory = ops.repeat(memory, width, axis=0)
        rows, places = memory.shape[0], ops.arange(case.length + 1)

        def run(prompt, index):
            states = decoder.loop(embedding(prompt[:, :-1]), memory)
            state = ops.take(states, index, axis=1)
            return ops.log_softmax(out(state), axis=-1)

        def body(index, prompt, totals):
            log_probs = ops.reshape(run(prompt, index), (-1, width * WORDS))
            scores = log_probs + ops.repeat(totals, WORDS, axis=1)
            totals, best = ops.top_k(scores, width)
            first = ops.arange(rows // width) * width
            parents = ops.reshape(best // WORDS + first[:, None], (-1,))
            tokens = ops.reshape(best % WORDS, (-1, 1))
            prompt = ops.take(prompt, parents, axis=0)
            return index + 1, ops.where(places == index + 1, tokens, prompt), totals

        prompt = ops.full((rows, case.length + 1), START, "int32")
        impossible = ops.where(ops.arange(width) == 0, 0.0, -np.inf)
        totals = ops.tile(impossible[None], (rows // width, 1))
        _, prompt, totals = ops.while_loop(
            lambda index, *_: index < case.length, body, (0, prompt, totals)
        )
        return ops.reshape(prompt[:, 1:], (-1, width, case.length)), totals

    return search, [*decoder.layers, embedding, out]


def _ends(given):
    """The layers before and behind a decoder."""
    import keras

    depth, words = given["out"].shape
    embedding, out = keras.layers.Embedding(words, depth), keras.layers.Dense(words)
    embedding.build((None,))
    out.build((None, depth))
    embedding.set_weights([given["embedding"]])
    out.set_weights([given["out"], given["never"]])
    return embedding, out


def _of_cell(given):
    bias = np.zeros((2, given["kernel"].shape[1]), "float32")
    return [given["kernel"], given["recurrent"], bias]


# As in `contestants.py`: kinds of cases, and what makes a function.
KERAS = {
    "keras.loop": ("decoder", keras_loop),
    "keras.RNN": ("decoder", keras_rnn),
    "keras.rerun": ("greedy beam", keras_rerun),
}
