"""Reads algorithms in the XML of MSCCL, which msccl-tools writes and msccl-executor-nccl runs:

    <algo name= coll= ngpus= nchunksperloop= inplace= ...>
      <gpu id= s_chunks= ...>
        <tb id= send= recv= chan=>
          <step s= type= srcbuf= srcoff= dstbuf= dstoff= cnt= depid= deps= hasdep=/>

A vector is cut into `nchunksperloop` equal chunks. A thread block runs its steps one after another.
It sends to one GPU and receives from one, over a channel. Before a step it waits until thread block
`depid` has ended step `deps`, which says so (`hasdep`). Other attributes say how NCCL runs the
algorithm, or follow from the collective, and are not read.
"""

import dataclasses
import xml.parsers.expat

RANKS_MAX = 1024  # the reader of plans takes no more
NUMBER_MAX = 2**31 - 1

COLLECTIVES = {"allreduce": "all_reduce", "allgather": "all_gather",
               "reducescatter": "reduce_scatter", "reduce_scatter": "reduce_scatter",
               "alltoall": "all_to_all", "broadcast": "broadcast", "reduce": "reduce",
               "gather": "gather", "scatter": "scatter"}
WITHOUT_BLOCKS = ("all_reduce", "broadcast", "reduce")
BUFFERS = {"i": "input", "o": "output", "s": "scratch"}
# "r" receives, "s" sends, "+" reads its source, "=" writes its target.
TYPES = {"s": "s+", "r": "r=", "rcs": "rs=", "rrs": "rs+", "rrc": "r+=", "rrcs": "rs+=", "cpy": "+=",
         "re": "+=", "nop": ""}


class Wrong(Exception):
    """The algorithm has no plan; the text says where and why."""


@dataclasses.dataclass(eq=False)
class Step:
    """A step of the algorithm. `source` and `target` are (buffer, first chunk)."""
    line: int
    gpu: int
    block: int  # its place in the GPU
    block_id: int
    number: int
    type: str
    count: int
    source: tuple = None
    target: tuple = None
    wait: tuple = None  # (block, step)
    ends_tell: bool = False
    round: int = 0      # in which it runs, if every step takes one
    sent: int = None    # the message
    received: int = None

    def does(self, what):
        return what in TYPES[self.type]

    def place(self):
        return (f"line {self.line}: GPU {self.gpu}, thread block {self.block_id}, "
                f"step {self.number}: ")


@dataclasses.dataclass
class Block:
    line: int
    id: int
    send: int
    receive: int
    channel: int
    steps: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Gpu:
    scratch: int
    blocks: list = dataclasses.field(default_factory=list)


class Element:
    """The attributes of one element of the XML."""

    def __init__(self, name, attributes, line):
        self.name, self.attributes, self.line = name, attributes, line

    def wrong(self, what):
        raise Wrong(f"line {self.line}: <{self.name}>: {what}")

    def word(self, name):
        if name not in self.attributes:
            self.wrong(f"the attribute {name} is missing")
        return self.attributes[name]

    def number(self, name, least, most):
        text = self.word(name)
        if text.removeprefix("-").isdecimal() and least <= int(text) <= most:
            return int(text)
        return self.wrong(f"{name}={text!r} is no number from {least} to {most}")

    def choice(self, name, words):
        text = self.word(name)
        if text not in words:
            self.wrong(f"{name}={text!r} is none of {', '.join(words)}")
        return text


class Algorithm:
    """Reads the XML."""
    ELEMENTS = ("algo", "gpu", "tb", "step")

    def __init__(self, text):
        self.depth = 0
        self.gpus = {}
        parser = xml.parsers.expat.ParserCreate()
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.StartDoctypeDeclHandler = self.refuse_doctype
        self.parser = parser
        try:
            parser.Parse(text, True)
        except xml.parsers.expat.ExpatError as error:
            what = xml.parsers.expat.ErrorString(error.code)
            raise Wrong(f"line {error.lineno}: the XML is broken: {what}") from None
        for gpu in range(self.ranks):
            if gpu not in self.gpus:
                raise Wrong(f"line {parser.CurrentLineNumber}: there are {self.ranks} GPUs "
                            f"(attribute ngpus), and no <gpu> with id {gpu}")
            self.resolve_waits(self.gpus[gpu])
        self.steps = [step for gpu in range(self.ranks) for block in self.gpus[gpu].blocks
                      for step in block.steps]

    def block_chunks(self):
        return self.chunks if self.collective in WITHOUT_BLOCKS else self.chunks // self.ranks

    # Entities could grow without bound, and no algorithm needs them.
    def refuse_doctype(self, *_):
        raise Wrong(f"line {self.parser.CurrentLineNumber}: a document type is not allowed; "
                    "remove <!DOCTYPE ...>")

    def end(self, _):
        self.depth -= 1

    def start(self, name, attributes):
        line = self.parser.CurrentLineNumber
        if self.depth == len(self.ELEMENTS):
            raise Wrong(f"line {line}: <step> has no elements, and one stands in it")
        wanted = self.ELEMENTS[self.depth]
        if name != wanted:
            raise Wrong(f"line {line}: the element {name!r} stands where <{wanted}> must")
        element = Element(name, attributes, line)
        (self.read_algorithm, self.read_gpu, self.read_block, self.read_step)[self.depth](element)
        self.depth += 1

    def read_algorithm(self, element):
        self.name = element.word("name")
        self.collective = COLLECTIVES[element.choice("coll", COLLECTIVES)]
        self.in_place = element.number("inplace", 0, 1) == 1
        self.chunks = element.number("nchunksperloop", 1, NUMBER_MAX)
        self.ranks = element.number("ngpus", 1, RANKS_MAX)
        if self.collective not in WITHOUT_BLOCKS and self.chunks % self.ranks:
            element.wrong("nchunksperloop is no multiple of ngpus, and each GPU has a block of "
                          "chunks")

    def read_gpu(self, element):
        self.gpu = element.number("id", 0, self.ranks - 1)
        if self.gpu in self.gpus:
            element.wrong(f"GPU {self.gpu} stands twice")
        self.gpus[self.gpu] = Gpu(element.number("s_chunks", 0, NUMBER_MAX))

    def read_block(self, element):
        block = Block(element.line, element.number("id", 0, NUMBER_MAX),
                      element.number("send", -1, self.ranks - 1),
                      element.number("recv", -1, self.ranks - 1),
                      element.number("chan", -1, NUMBER_MAX))
        if self.gpu in (block.send, block.receive):
            element.wrong(f"GPU {self.gpu} has itself as peer; use cpy or re")
        self.gpus[self.gpu].blocks.append(block)

    def read_step(self, element):
        blocks = self.gpus[self.gpu].blocks
        block = blocks[-1]
        if element.number("s", 0, NUMBER_MAX) != len(block.steps):
            element.wrong(f"step {len(block.steps)} must stand here (attribute s)")
        kind = element.choice("type", TYPES)
        step = Step(element.line, self.gpu, len(blocks) - 1, block.id, len(block.steps), kind,
                    0 if kind == "nop" else element.number("cnt", 1, NUMBER_MAX))
        if step.does("+"):
            step.source = self.chunks_of(element, "src")
        if step.does("="):
            step.target = self.chunks_of(element, "dst")
        if step.does("s") and block.send < 0:
            element.wrong("it sends, and its <tb> has no peer (attribute send)")
        if step.does("r") and block.receive < 0:
            element.wrong("it receives, and its <tb> has no peer (attribute recv)")
        step.ends_tell = element.number("hasdep", 0, 1) == 1
        waits_for = element.number("depid", -1, NUMBER_MAX), element.number("deps", -1, NUMBER_MAX)
        if waits_for[0] >= 0:
            if waits_for[1] < 0:
                element.wrong("depid names a thread block, and deps no step of it")
            step.wait = waits_for  # resolve_waits() puts the place of the block for its id
        block.steps.append(step)

    @staticmethod
    def chunks_of(element, which):
        return (BUFFERS[element.choice(f"{which}buf", BUFFERS)],
                element.number(f"{which}off", 0, NUMBER_MAX))

    @staticmethod
    def resolve_waits(gpu):
        places = {}
        for place, block in enumerate(gpu.blocks):
            if block.id in places:
                raise Wrong(f"line {block.line}: <tb>: the GPU has two with id {block.id}")
            places[block.id] = place
        for step in (step for block in gpu.blocks for step in block.steps if step.wait):
            block, number = step.wait
            where = f"line {step.line}: <step>: "
            if block not in places:
                raise Wrong(f"{where}depid={block} is no thread block of this GPU")
            steps = gpu.blocks[places[block]].steps
            if number >= len(steps):
                raise Wrong(f"{where}deps={number} is no step of thread block {block}")
            if not any(each.ends_tell for each in steps[number:]):
                raise Wrong(f"{where}it waits for step {number} of thread block {block}, which does "
                            "not tell its end; set hasdep=\"1\" there")
            step.wait = (places[block], number)
