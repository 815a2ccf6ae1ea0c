"""What `decoder_contestants.py` does, written in PyTorch: loops over steps in Python."""

import numpy as np
from decoder_contestants import BEAMS, SEARCHES, START, WORDS, numbers


def _torch_decoder(case, keys_once):
    """`key(memory)` and `step(x, state, key, memory)`, with their parameters.

    `keys_once=False` is as PyTorch's own tutorial has it.
    """
    import torch

    given, depth = numbers(case), case.depth
    kinds = torch.nn.GRUCell, torch.nn.GRU
    cell = kinds[not keys_once](2 * depth, depth)
    query, key = (torch.nn.Linear(depth, depth, bias=False) for _ in range(2))
    v = torch.nn.Linear(depth, 1, bias=False)
    order = [1, 0, 2]  # PyTorch has the reset gate first
    kernels = [
        given[name].reshape(-1, 3, depth)[:, order].reshape(-1, 3 * depth).T
        for name in ("kernel", "recurrent")
    ]
    biases = [np.zeros(3 * depth, "float32")] * 2
    transposed = [given[name].T for name in ("query", "key", "v")]
    parameters = [*cell.parameters(), query.weight, key.weight, v.weight]
    with torch.no_grad():
        for p, array in zip(parameters, [*kernels, *biases, *transposed], strict=True):
            p.copy_(torch.tensor(np.ascontiguousarray(array)))

    def step(x, state, keys, memory):
        keys = keys if keys_once else key(memory)
        scores = v(torch.tanh(query(state).unsqueeze(1) + keys)).squeeze(2)
        weights = torch.softmax(scores, -1).unsqueeze(1)
        x = torch.cat([x, torch.bmm(weights, memory).squeeze(1)], -1)
        if keys_once:
            return cell(x, state), weights.squeeze(1)
        _, state = cell(x.unsqueeze(0), state.unsqueeze(0))
        return state.squeeze(0), weights.squeeze(1)

    def prepared(memory):
        return key(memory) if keys_once else None

    return prepared, step, parameters


def torch_loop(keys_once):
    def make(case):
        import torch

        if case.kind in SEARCHES:
            return _torch_search(case, keys_once)
        prepared, step, parameters = _torch_decoder(case, keys_once)

        def run(targets, memory):
            for p in parameters:
                p.grad = None
            keys, outputs = prepared(memory), []
            state = memory.new_zeros(len(memory), case.depth)
            for t in range(targets.shape[1]):
                state, _ = step(targets[:, t], state, keys, memory)
                outputs.append(state)
            return torch.stack(outputs, 1)

        return run

    return make


def _torch_search(case, keys_once):
    import torch

    prepared, step, _ = _torch_decoder(case, keys_once)
    given = {name: torch.tensor(array) for name, array in numbers(case).items()}
    embedding, out, never = given["embedding"], given["out"], given["never"]

    def greedy(memory):
        keys, state = prepared(memory), memory.new_zeros(len(memory), case.depth)
        token = torch.full((len(memory),), START)
        tokens, looked, total = [], [], 0
        for _ in range(case.length):
            state, weights = step(embedding[token], state, keys, memory)
            log_probs = torch.log_softmax(torch.addmm(never, state, out), -1)
            best, token = log_probs.max(-1)
            tokens.append(token)
            looked.append(weights)
            total = total + best
        return torch.stack(tokens, 1), total, torch.stack(looked, 1)

    def beam(memory):
        batch = len(memory)
        memory = memory.repeat_interleave(BEAMS, 0)
        keys, state = prepared(memory), memory.new_zeros(len(memory), case.depth)
        last = torch.full((len(memory),), START)
        tokens = last.new_zeros(len(memory), 0)
        looked = memory.new_zeros(len(memory), 0, memory.shape[1])
        totals = torch.full((batch, BEAMS), -float("inf"))
        totals[:, 0] = 0
        first = BEAMS * torch.arange(batch).unsqueeze(1)
        for _ in range(case.length):
            state, weights = step(embedding[last], state, keys, memory)
            log_probs = torch.log_softmax(torch.addmm(never, state, out), -1)
            scores = totals.unsqueeze(-1) + log_probs.view(batch, BEAMS, WORDS)
            totals, best = scores.view(batch, -1).topk(BEAMS)
            rows, last = (best // WORDS + first).view(-1), (best % WORDS).view(-1)
            state = state[rows]
            tokens = torch.cat([tokens[rows], last.unsqueeze(1)], 1)
            looked = torch.cat([looked[rows], weights[rows].unsqueeze(1)], 1)
        return tokens.view(batch, BEAMS, -1), totals, looked

    return beam if case.kind == "beam" else greedy


# As in `contestants.py`: kinds of cases, and what makes a function.
TORCH = {
    "torch.tutorial": ("decoder greedy beam", torch_loop(keys_once=False)),
    "torch.keys_once": ("decoder greedy beam", torch_loop(keys_once=True)),
}
