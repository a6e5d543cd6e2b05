#!/usr/bin/env python3
"""Makes a plan of an algorithm in the XML of MSCCL (msccl_xml.py), in the text form of docs/plans.md:

    scripts/msccl_plan.py ring.xml -c 4000 | r2ccl plan check -

A thread block runs its steps one after another, and waits for steps of other thread blocks. A plan
needs less order: a step comes after those that read what it writes, or write what it reads or
writes, if the algorithm puts them in this order. Where it puts them in none, the plan has none
either, and `r2ccl plan check` finds the race. Between two ranks a plan has one sequence of messages,
in the order of the rounds in which the receiver uses them, whatever their channels.

Plans have no name for these, so that they are dropped: channels and thread blocks, which decide how
many messages travel at a time; the protocol (Simple, LL, LL128), which decides how NCCL cuts them;
the loop over pieces of a large vector, which changes no dependency; the range of sizes for which the
algorithm is meant (minBytes, maxBytes).
"""

import argparse
import collections
import dataclasses
import heapq
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
from msccl_xml import Algorithm, Step, Wrong  # noqa: E402 (it lies beside this file)


def match_messages(algorithm):
    """Returns the messages, each the step that sends it and the one that receives it."""
    connections = collections.defaultdict(lambda: ([], []))
    for step in algorithm.steps:
        block = algorithm.gpus[step.gpu].blocks[step.block]
        if step.does("s"):
            connections[step.gpu, block.send, block.channel][0].append(step)
        if step.does("r"):
            connections[block.receive, step.gpu, block.channel][1].append(step)
    messages = []
    for (sender, receiver, channel), ends in sorted(connections.items()):
        name = f"GPU {sender} to GPU {receiver} on channel {channel}"
        for steps in ends:
            if steps and steps[0].block != steps[-1].block:
                raise Wrong(f"{steps[-1].place()}another thread block has messages from {name} too; "
                            "give them different channels")
        common = min(map(len, ends))
        for steps, missing in zip(ends, ("receives", "sends")):
            if len(steps) > common:
                raise Wrong(f"{steps[common].place()}no step {missing} this message from {name}")
        for sends, receives in zip(*ends):
            if sends.count != receives.count:
                raise Wrong(f"{receives.place()}cnt is {receives.count}, and it is {sends.count} on "
                            f"line {sends.line}, which sends the message")
            sends.sent = receives.received = len(messages)
            messages.append((sends, receives))
    return messages


def schedule_of(algorithm, messages):
    """Returns all steps, each after all that must end before it, and sets their rounds."""
    followers, waits_for = collections.defaultdict(list), collections.Counter()

    def connect(first, second):
        followers[first].append(second)
        waits_for[second] += 1

    for step in algorithm.steps:
        blocks = algorithm.gpus[step.gpu].blocks
        if step.number > 0:
            connect(blocks[step.block].steps[step.number - 1], step)
        if step.wait:
            connect(blocks[step.wait[0]].steps[step.wait[1]], step)
    for sender, receiver in messages:
        connect(sender, receiver)
    schedule = [step for step in algorithm.steps if waits_for[step] == 0]
    for step in schedule:  # it grows
        for follower in followers[step]:
            follower.round = max(follower.round, step.round + 1)
            waits_for[follower] -= 1
            if waits_for[follower] == 0:
                schedule.append(follower)
    if len(schedule) < len(algorithm.steps):
        stuck = next(step for step in algorithm.steps if waits_for[step] > 0)
        raise Wrong(f"{stuck.place()}it never starts, because steps wait for each other in a circle")
    return schedule


class Memory:
    """The memory of one rank. Places number its chunks: first those of the caller, where the input
    and the output may share some, then the scratch."""

    def __init__(self, algorithm, gpu, root):
        block, total = algorithm.block_chunks(), algorithm.chunks
        at_root = lambda chunks: chunks if gpu == root else 0  # noqa: E731
        self.input, self.output = {
            "all_reduce": (block, block), "reduce": (block, at_root(block)),
            "broadcast": (at_root(block), block), "all_gather": (block, total),
            "gather": (block, at_root(total)), "reduce_scatter": (total, block),
            "scatter": (at_root(total), block), "all_to_all": (total, total),
        }[algorithm.collective]
        self.input_at, self.output_at = 0, self.input
        if algorithm.in_place:
            own = gpu * block
            self.input_at = own if algorithm.collective in ("all_gather", "gather") else 0
            self.output_at = own if algorithm.collective in ("reduce_scatter", "scatter") else 0
        self.user = max(self.input_at + self.input, self.output_at + self.output)
        self.scratch = algorithm.gpus[gpu].scratch

    def check(self, step, chunks):
        if chunks is None:
            return
        most = {"input": self.input, "output": self.output, "scratch": self.scratch}[chunks[0]]
        if chunks[1] + step.count > most:
            name = "scratch memory" if chunks[0] == "scratch" else chunks[0]
            raise Wrong(f"{step.place()}it uses chunk {chunks[1] + step.count - 1} of the {name}, "
                        f"which has {most} chunks")

    def place(self, chunks, k=0):
        at = {"input": self.input_at, "output": self.output_at, "scratch": self.user}[chunks[0]]
        return at + chunks[1] + k

    def region(self, place, count, elements):
        """Returns the elements of the chunks, of the output where they are part of it: plans do not
        write the input."""
        if place >= self.user:
            name, first = "scratch", place - self.user
        elif self.output_at <= place and place + count <= self.output_at + self.output:
            name, first = "output", place - self.output_at
        else:
            name, first = "input", place - self.input_at
        return f"{name}:{first * elements}+{count * elements}"


@dataclasses.dataclass
class Cell:
    """One chunk of memory."""
    inputs: int = 0         # so many inputs are added in it
    received: tuple = None  # (step, chunk) of the `r` that wrote it, while no step has used it
    added: Step = None      # the `re` that added it to another one; then it is not there any more


class Values:
    """Follows the values through the algorithm. `complete[step, k]`: the sum has the inputs of all
    ranks. `added_by[step, k]`: the (`re`, chunk) that adds this chunk of an `r` to another one."""

    def __init__(self, algorithm, schedule, memories):
        self.ranks = algorithm.ranks
        self.memories = memories
        self.complete, self.added_by, self.messages = {}, {}, {}
        self.cells = []
        for memory in memories:
            self.cells.append([Cell() for _ in range(memory.user + memory.scratch)])
            for place in range(memory.input_at, memory.input_at + memory.input):
                self.cells[-1][place].inputs = 1
        for step in schedule:
            memories[step.gpu].check(step, step.source)
            memories[step.gpu].check(step, step.target)
            for k in range(step.count):
                (self.add if step.type == "re" else self.run)(step, k)

    def cell(self, step, chunks, k):
        return self.cells[step.gpu][self.memories[step.gpu].place(chunks, k)]

    def run(self, step, k):
        inputs = self.messages.pop((step.received, k)) if step.does("r") else 0
        if step.source:
            source = self.cell(step, step.source, k)
            self.use(step, source)
            inputs += source.inputs
            if step.does("r"):
                self.complete[step, k] = inputs == self.ranks
        if step.does("s"):
            self.messages[step.sent, k] = inputs
        if step.target:
            target = self.cell(step, step.target, k)
            target.inputs, target.added = inputs, None
            target.received = (step, k) if step.type == "r" else None

    @staticmethod
    def use(step, cell):
        if cell.added:
            raise Wrong(f"{step.place()}it uses a chunk that line {cell.added.line} has added to "
                        "another one; let `re` be the only user of a chunk that it adds")
        cell.received = None

    # A plan adds a chunk when it arrives. So the sum of two chunks needs one that only arrives to be
    # added: in scratch, whose content ends then, or in place of the sum.
    def add(self, step, k):
        source, target = self.cell(step, step.source, k), self.cell(step, step.target, k)
        is_source = step.source[0] == "scratch" and source.received
        if not is_source and not target.received:
            raise Wrong(f"{step.place()}`re` adds a chunk that did not come by `r`, or that has other "
                        "users; plans add only what arrives: use rrc at the receiver")
        self.added_by[source.received if is_source else target.received] = (step, k)
        self.use(step, target if is_source else source)
        target.inputs += source.inputs
        self.complete[step, k] = target.inputs == self.ranks
        target.received = None
        if is_source:
            source.added = step


class Pieces:
    """Cuts messages into single chunks where a plan needs several steps at the receiver: chunks that
    `re` adds to different places, or of which only some become complete."""

    def __init__(self, messages, values):
        self.messages, self.values = messages, values
        self.of = [[(0, receiver.count)] if self.is_one_step(receiver) else
                   [(k, 1) for k in range(receiver.count)] for _, receiver in messages]

    def is_one_step(self, receiver):
        added = [self.values.added_by.get((receiver, k)) for k in range(receiver.count)]
        if any(added):
            one = added[0] is not None and added == [
                (added[0][0], added[0][1] + k) for k in range(receiver.count)]
            if not one:
                return False
        complete = self.values.complete
        return len({complete.get(added[k] or (receiver, k)) for k in range(receiver.count)}) == 1

    def user(self, message, piece):
        """Returns (step, chunk) that uses the memory of the receiver: `re`, where that adds it."""
        receiver = self.messages[message][1]
        return self.values.added_by.get((receiver, piece[0]), (receiver, piece[0]))

    def turns(self):
        """Returns the turn of each (message, piece) among its sender's to its receiver."""
        pairs = collections.defaultdict(list)
        for message, (sender, receiver) in enumerate(self.messages):
            for i, piece in enumerate(self.of[message]):
                user = self.user(message, piece)[0]
                pairs[sender.gpu, receiver.gpu].append(
                    (user.round, user.block, user.number, i, message))
        return {(entry[4], entry[3]): turn for entries in pairs.values()
                for turn, entry in enumerate(sorted(entries))}


@dataclasses.dataclass
class Draft:
    """A step of the plan, with the keys of its place in the list."""
    kind: str
    user: Step  # the step of the algorithm
    part: int   # the user receives before it sends
    count: int  # chunks
    reads: int = None   # the first places
    writes: int = None
    peer: int = None
    message: int = None
    piece: int = 0
    last: bool = False
    after: set = dataclasses.field(default_factory=set)

    def place(self):
        return (self.user.round, self.user.block, self.user.number, self.part, self.piece)


class RankPlan:
    """The list of one rank."""

    def __init__(self, gpu, blocks, schedule, memory, pieces, turns):
        self.gpu, self.memory, self.pieces, self.turns = gpu, memory, pieces, turns
        self.end = memory.user + memory.scratch
        steps = [step for step in schedule if step.gpu == gpu]
        self.find_order(steps, blocks)
        self.drafts = []
        for step in steps:
            self.add(step)
        self.drafts.sort(key=Draft.place)
        self.order_accesses()
        self.sort()

    # How many steps of each thread block have ended when a step starts.
    def find_order(self, steps, blocks):
        self.ended = {}
        for step in steps:
            ended = self.ended[step] = [0] * len(blocks)
            before = [blocks[step.block].steps[step.number - 1]] if step.number > 0 else []
            before += [blocks[step.wait[0]].steps[step.wait[1]]] if step.wait else []
            for other in before:
                ended[:] = map(max, ended, self.ended[other])
                ended[other.block] = max(ended[other.block], other.number + 1)

    def is_before(self, first, second):
        return self.ended[second][first.block] > first.number

    def add(self, step):
        sum_at = self.end  # a step rrs has no place for its sum in the algorithm
        if step.type == "rrs":
            self.end += step.count
        if step.does("r"):
            sender = self.pieces.messages[step.received][0]
            for i, piece in enumerate(self.pieces.of[step.received]):
                self.drafts.append(self.arrival(step, i, piece, sender.gpu, sum_at))
        if step.does("s"):
            receiver = self.pieces.messages[step.sent][1]
            chunks = step.target or step.source
            at = sum_at if step.type == "rrs" else self.memory.place(chunks)
            for i, (first, count) in enumerate(self.pieces.of[step.sent]):
                self.drafts.append(Draft("send", step, 1, count, reads=at + first,
                                         peer=receiver.gpu, message=step.sent, piece=i))
        if step.type == "cpy":
            reads, writes = self.memory.place(step.source), self.memory.place(step.target)
            if reads != writes:  # in place there is nothing to do
                self.drafts.append(Draft("copy", step, 0, step.count, reads, writes))

    def arrival(self, step, i, piece, peer, sum_at):
        first, count = piece
        user, chunk = self.pieces.user(step.received, piece)
        place = self.memory.place
        draft = Draft("receive_reduce", user, 0, count, peer=peer, message=step.received, piece=i)
        if user is not step:
            # `re` adds what arrives to its other chunk.
            if not self.is_before(step, user):
                raise Wrong(f"{user.place()}it adds a chunk that line {step.line} receives, and does "
                            "not wait for it")
            arrives = user.source[0] == "scratch" and (
                place(user.source, chunk) == place(step.target, first))
            draft.reads = place(user.target if arrives else user.source, chunk)
            draft.writes = place(user.target, chunk)
        elif step.source is None:
            draft.kind, draft.writes = "receive", place(step.target, first)
        else:
            draft.reads = place(step.source, first)
            draft.writes = place(step.target, first) if step.target else sum_at + first
        draft.last = self.pieces.values.complete.get((user, chunk), False)
        return draft

    # Gives each step the earlier ones that use the same chunks, where one of the two writes.
    def order_accesses(self):
        writers, readers = {}, collections.defaultdict(list)

        def after(first, second):
            before = (first.part < second.part if first.user is second.user
                      else self.is_before(first.user, second.user))
            if first is not second and before:
                second.after.add(id(first))

        for draft in self.drafts:
            for k in range(draft.count if draft.reads is not None else 0):
                if draft.reads + k in writers:
                    after(writers[draft.reads + k], draft)
                readers[draft.reads + k].append(draft)
            for k in range(draft.count if draft.writes is not None else 0):
                place = draft.writes + k
                for other in [writers.get(place, draft), *readers.pop(place, [])]:
                    after(other, draft)
                writers[place] = draft

    # Puts each step as early as its place in drafts and the orders allow. Messages of one direction
    # with one peer stand in the order of their turns.
    def sort(self):
        waits_for = {id(draft): set(draft.after) for draft in self.drafts}
        directions = collections.defaultdict(list)
        for draft in self.drafts:
            if draft.message is not None:
                directions[draft.kind == "send", draft.peer].append(draft)
        for drafts in directions.values():
            drafts.sort(key=lambda draft: self.turns[draft.message, draft.piece])
            for first, second in zip(drafts, drafts[1:]):
                waits_for[id(second)].add(id(first))
        followers = collections.defaultdict(list)
        for i, draft in enumerate(self.drafts):
            for before in waits_for[id(draft)]:
                followers[before].append(i)
        left = [len(waits_for[id(draft)]) for draft in self.drafts]
        ready = [i for i, count in enumerate(left) if count == 0]
        self.index = {}
        while ready:
            draft = self.drafts[heapq.heappop(ready)]
            self.index[id(draft)] = len(self.index)
            for i in followers[id(draft)]:
                left[i] -= 1
                if left[i] == 0:
                    heapq.heappush(ready, i)
        if len(self.index) < len(self.drafts):
            stuck = next(draft for draft, count in zip(self.drafts, left) if count > 0)
            raise Wrong(f"{stuck.user.place()}two ranks of a plan exchange messages in one order, and "
                        "the channels of this algorithm need several; put messages that depend on "
                        "each other on one channel")
        self.drafts.sort(key=lambda draft: self.index[id(draft)])

    def text(self, elements, in_place):
        scratch = (self.end - self.memory.user) * elements
        lines = [f"rank {self.gpu} steps {len(self.drafts)} scratch {scratch}" +
                 (" in_place" if in_place else "")]
        for index, draft in enumerate(self.drafts):
            words = [str(index), draft.kind]
            words += ["peer", str(draft.peer)] if draft.peer is not None else []
            for name, place in (("source", draft.reads), ("target", draft.writes)):
                if place is not None:
                    words += [name, self.memory.region(place, draft.count, elements)]
            if draft.kind == "receive_reduce":
                # Ranks that add the same two sums add them in one order: the lower rank's is left.
                words += ["operands", "own_first" if self.gpu < draft.peer else "received_first"]
                words += ["last_reduction"] if draft.last else []
            if draft.after:
                words += ["after", ",".join(map(str, sorted(self.index[each] for each in draft.after)))]
            lines.append(" ".join(words))
        return lines


def plan_of(algorithm, options):
    """Returns the plan as text. The `options` are those of main()."""
    least = algorithm.block_chunks()
    count = least if options.count is None else options.count
    if count <= 0 or count % least:
        raise Wrong(f"the algorithm cuts {count} elements into equal chunks; take a multiple of "
                    f"{least}")
    messages = match_messages(algorithm)
    schedule = schedule_of(algorithm, messages)
    memories = [Memory(algorithm, gpu, options.root) for gpu in range(algorithm.ranks)]
    pieces = Pieces(messages, Values(algorithm, schedule, memories))
    turns = pieces.turns()
    lines = [f"r2ccl-plan 1 collective {algorithm.collective} algorithm automatic "
             f"type {options.type} op {options.op} ranks {algorithm.ranks} root {options.root} "
             f"count {count}" + (f" hosts {options.hosts}" if options.hosts else "") +
             (f" view {options.view}" if options.view else "")]
    for gpu in range(algorithm.ranks):
        plan = RankPlan(gpu, algorithm.gpus[gpu].blocks, schedule, memories[gpu], pieces, turns)
        lines += plan.text(count // least, algorithm.in_place)
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", metavar="FILE", help="the algorithm; - is standard input")
    parser.add_argument("-c", "--count", type=int,
                        help="elements of the vector, or of each block where the collective has "
                        "blocks (default: one for each chunk of the algorithm)")
    parser.add_argument("--type", default="float32", help="of the elements (default float32)")
    parser.add_argument("--op", default="sum", help="of a reduction (default sum)")
    parser.add_argument("--root", type=int, default=0, help="rank (default 0)")
    parser.add_argument("--hosts", metavar="N,N...", help="the host of each rank: 0,0,1,1")
    parser.add_argument("--view", help="the rates of the hosts' NICs, as the text form has them")
    options = parser.parse_args()
    try:
        if options.file == "-":
            text = sys.stdin.buffer.read()
        else:
            with open(options.file, "rb") as file:
                text = file.read()
        sys.stdout.write(plan_of(Algorithm(text), options))
    except (Wrong, OSError) as error:
        what = getattr(error, "strerror", None) or error
        print(f"msccl_plan.py: {options.file}: {what}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
