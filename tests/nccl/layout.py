"""Prints the layout of NCCL's structs for kernels, from the debug information of its library:

    gdb -batch -nx -x layout.py libnccl.so.2 > layout.txt

The emulator reads this text (emulator/layout.h), so that one build serves many versions of NCCL.
"""

import gdb

STRUCTS = ("ncclConnInfo", "ncclConnFifo", "ncclRing", "ncclTree", "ncclDevChannelPeer",
           "ncclDevChannel", "ncclKernelComm", "ncclKernelCommAndChannels", "ncclDevComm",
           "ncclDevCommAndChannels", "ncclDevWorkP2p", "ncclDevWorkColl", "ncclDevWorkBcast",
           "ncclDevWorkBatch", "ncclDevKernelArgs", "cudaDeviceProp")
CONSTANTS = ("ncclNumTypes", "ncclNumDevRedOps")


def print_members(prefix, first_bit, kind):
    """Prints the members of a struct or union. Members of unnamed types count as its own."""
    for member in kind.fields():
        if not hasattr(member, "bitpos"):  # a static member
            continue
        bit = first_bit + member.bitpos
        inner = member.type.strip_typedefs()
        if inner.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION) and (
                not member.name or inner.name is None):
            print_members(f"{prefix}.{member.name}" if member.name else prefix, bit, inner)
        if member.name:
            # A bit field is read as the whole integer of its type that it lies in.
            unit = 8 * member.type.sizeof if member.bitsize else 8
            byte = bit // unit * (unit // 8)
            print(f"field {prefix}.{member.name} {byte} {member.type.sizeof}",
                  bit - 8 * byte, member.bitsize)


def main():
    for struct in STRUCTS:
        try:
            kind = gdb.lookup_type(f"struct {struct}").strip_typedefs()
        except gdb.error:
            continue  # this version has none
        print(f"size {struct} {kind.sizeof}")
        print_members(struct, 0, kind)
    for constant in CONSTANTS:
        print(f"constant {constant} {int(gdb.parse_and_eval(constant))}")


main()
