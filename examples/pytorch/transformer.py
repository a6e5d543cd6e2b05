"""A small language model over bytes, and the text that it learns."""
import pathlib

import torch
from torch import nn
from torch.nn import functional as F

CONTEXT = 64
VOCABULARY = 256


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.head_width = width // heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        # Query, key and value are separate layers, so that a rank can have some heads of each.
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        h = self.norm1(x)
        q, k, v = (layer(h).unflatten(-1, (-1, self.head_width)).transpose(1, 2)
                   for layer in (self.query, self.key, self.value))
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(h.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self, width=128, layers=2, heads=4):
        super().__init__()
        self.token, self.position = nn.Embedding(VOCABULARY, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def load_text(path):
    """Returns the bytes of a file, or of all files of a folder, as a tensor."""
    path = pathlib.Path(path)
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file() and not file.is_symlink())
    text = b"".join(file.read_bytes() for file in files)
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).long()


def batch_of(text, step, share, size, seed):
    """Returns inputs and targets: share number `share` of the batch of a step."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + step * 1_009 + share)
    starts = torch.randint(len(text) - CONTEXT - 1, (size,), generator=generator)
    rows = torch.stack([text[start:start + CONTEXT + 1] for start in starts])
    return rows[:, :-1], rows[:, 1:]
