"""The declarations of r2ccl.h for ctypes: constants, structs and PROTOTYPES. Needs no torch.

scripts/python_api.py writes this file from the header: change that, not this.
"""

from ctypes import (CFUNCTYPE, Structure, c_char, c_char_p, c_int, c_int64, c_size_t, c_uint32,
                    c_uint64, c_void_p, sizeof)

R2CCL_MAJOR = 0
R2CCL_MINOR = 1
R2CCL_PATCH = 0
R2CCL_VERSION_CODE = R2CCL_MAJOR * 10000 + R2CCL_MINOR * 100 + R2CCL_PATCH
R2CCL_UNIQUE_ID_BYTES = 128
R2CCL_HANDLE_BYTES = 160
R2CCL_SEALED_ID_BYTES = 200
R2CCL_CONFIG_MAGIC = 0x72326363
R2CCL_CONFIG_UNDEF_INT = -2147483648
R2CCL_SPLIT_NOCOLOR = -1
R2CCL_SHRINK_DEFAULT = 0
R2CCL_SHRINK_ABORT = 1
R2CCL_ERROR_RANKS_MAX = 32
R2CCL_ERROR_TEXT_BYTES = 2048
R2CCL_NIC_NAME_BYTES = 32
R2CCL_HOST_NAME_BYTES = 256
R2CCL_ENDPOINT_BYTES = 64

r2cclSuccess = 0
r2cclSystemError = 2
r2cclInternalError = 3
r2cclInvalidArgument = 4
r2cclInvalidUsage = 5
r2cclRemoteError = 6
r2cclInProgress = 7
r2cclTimeout = 8
r2cclAborted = 1000

r2cclInt8 = 0
r2cclChar = 0
r2cclUint8 = 1
r2cclInt32 = 2
r2cclInt = 2
r2cclUint32 = 3
r2cclInt64 = 4
r2cclUint64 = 5
r2cclFloat16 = 6
r2cclHalf = 6
r2cclFloat32 = 7
r2cclFloat = 7
r2cclFloat64 = 8
r2cclDouble = 8
r2cclBfloat16 = 9

r2cclSum = 0
r2cclProd = 1
r2cclMax = 2
r2cclMin = 3
r2cclAvg = 4
r2cclBand = 1000
r2cclBor = 1001
r2cclBxor = 1002
r2cclMaxRedOp = 0x7fffffff

r2cclScalarDevice = 0
r2cclScalarHostImmediate = 1

r2cclPathDown = 0
r2cclPathValidating = 1
r2cclPathUp = 2
r2cclPathSuspect = 3
r2cclPathDrained = 4
r2cclPathStandby = 5

r2cclScopeNic = 0
r2cclScopePair = 1
r2cclScopeRail = 2
r2cclScopeHost = 3
r2cclScopeProcess = 4

r2cclInterfaceDown = 1
r2cclCarrierLost = 2
r2cclConnectionLost = 3
r2cclSilent = 4
r2cclStalled = 5
r2cclLossy = 10
r2cclTampered = 11
r2cclAddressLost = 12


class r2cclUniqueId(Structure):
    _fields_ = [
        ("internal", c_char * R2CCL_UNIQUE_ID_BYTES),
    ]


class r2cclSealedId(Structure):
    _fields_ = [
        ("internal", c_char * R2CCL_SEALED_ID_BYTES),
    ]


class r2cclConfig_t(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("magic", c_uint32),
        ("blocking", c_int),
        ("ifname", c_char_p),
        ("oob_ifname", c_char_p),
        ("init_timeout_ms", c_int),
        ("cutoff_ms", c_int),
        ("name", c_char_p),
        ("reproducible", c_int),
        ("trusted_id", c_int),
        ("algorithm", c_char_p),
    ]


class r2cclErrorInfo_t(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("code", c_int),
        ("rank_count", c_int),
        ("ranks", c_int * R2CCL_ERROR_RANKS_MAX),
        ("text", c_char * R2CCL_ERROR_TEXT_BYTES),
    ]


class r2cclPathInfo_t(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("peer", c_int),
        ("state", c_int),
        ("nic", c_char * R2CCL_NIC_NAME_BYTES),
        ("peer_nic", c_char * R2CCL_NIC_NAME_BYTES),
        ("peer_host", c_char * R2CCL_HOST_NAME_BYTES),
        ("remote", c_char * R2CCL_ENDPOINT_BYTES),
        ("state_ns", c_uint64),
        ("incarnation", c_uint64),
        ("rate", c_uint64),
        ("round_trip_ns", c_uint64),
        ("one_way_excess_ns", c_int64),
        ("tx_bytes", c_uint64),
        ("rx_bytes", c_uint64),
        ("retransmitted_bytes", c_uint64),
        ("packets_sent", c_uint64),
        ("packets_lost", c_uint64),
        ("suspicions", c_uint64),
        ("downs", c_uint64),
        ("returns", c_uint64),
        ("loss_ppm", c_uint32),
        ("drained", c_int),
    ]


class r2cclVerdict_t(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("number", c_size_t),
        ("rank", c_int),
        ("scope", c_int),
        ("kind", c_int),
        ("process", c_int),
        ("host", c_char * R2CCL_HOST_NAME_BYTES),
        ("nic", c_char * R2CCL_NIC_NAME_BYTES),
        ("peer_host", c_char * R2CCL_HOST_NAME_BYTES),
        ("peer_nic", c_char * R2CCL_NIC_NAME_BYTES),
        ("at_ns", c_int64),
        ("detected_ns", c_int64),
        ("stall_ns", c_uint64),
        ("retransmitted_bytes", c_uint64),
        ("loss_ppm", c_uint32),
    ]


r2cclVerdictCallback_t = CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)


PROTOTYPES = {
    "r2cclGetVersion": (
        c_int, [c_void_p]),
    "r2cclGetUniqueId": (
        c_int, [c_void_p]),
    "r2cclGetPublicId": (
        c_int, [c_void_p, c_void_p]),
    "r2cclGetProcessHandle": (
        c_int, [c_void_p]),
    "r2cclFindProcessHandle": (
        c_int, [c_void_p, c_int, c_void_p]),
    "r2cclGetSealedIds": (
        c_int, [c_void_p, c_int, c_char_p, c_void_p, c_void_p]),
    "r2cclOpenSealedId": (
        c_int, [c_void_p, c_void_p, c_int, c_char_p, c_void_p]),
    "r2cclCommInitRank": (
        c_int, [c_void_p, c_int, r2cclUniqueId, c_int]),
    "r2cclCommInitRankConfig": (
        c_int, [c_void_p, c_int, r2cclUniqueId, c_int, c_void_p]),
    "r2cclCommInitEnv": (
        c_int, [c_void_p, c_void_p]),
    "r2cclCommSplit": (
        c_int, [c_void_p, c_int, c_int, c_void_p, c_void_p]),
    "r2cclCommDup": (
        c_int, [c_void_p, c_void_p, c_void_p]),
    "r2cclCommCreateGroup": (
        c_int, [c_void_p, c_void_p, c_size_t, c_char_p, c_void_p, c_void_p]),
    "r2cclCommShrink": (
        c_int, [c_void_p, c_void_p, c_int, c_void_p, c_void_p, c_int]),
    "r2cclCommRevoke": (
        c_int, [c_void_p, c_int]),
    "r2cclCommGetUniqueId": (
        c_int, [c_void_p, c_void_p]),
    "r2cclCommGrow": (
        c_int, [c_void_p, c_int, c_void_p, c_int, c_void_p, c_void_p]),
    "r2cclCommCount": (
        c_int, [c_void_p, c_void_p]),
    "r2cclCommUserRank": (
        c_int, [c_void_p, c_void_p]),
    "r2cclCommFinalize": (
        c_int, [c_void_p]),
    "r2cclCommDestroy": (
        c_int, [c_void_p]),
    "r2cclCommAbort": (
        c_int, [c_void_p]),
    "r2cclCommAbortWith": (
        c_int, [c_void_p, c_char_p]),
    "r2cclCommGetAsyncError": (
        c_int, [c_void_p, c_void_p]),
    "r2cclGetErrorString": (
        c_char_p, [c_int]),
    "r2cclGetLastError": (
        c_char_p, [c_void_p]),
    "r2cclGetErrorInfo": (
        c_int, [c_void_p, c_void_p]),
    "r2cclCommReport": (
        c_int, [c_void_p, c_void_p, c_void_p]),
    "r2cclCommGetPaths": (
        c_int, [c_void_p, c_void_p, c_void_p]),
    "r2cclCommGetVerdicts": (
        c_int, [c_void_p, c_void_p, c_void_p]),
    "r2cclCommSetVerdictCallback": (
        c_int, [c_void_p, r2cclVerdictCallback_t, c_void_p]),
    "r2cclSetCallName": (
        c_int, [c_char_p]),
    "r2cclAllReduce": (
        c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p]),
    "r2cclBroadcast": (
        c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p]),
    "r2cclReduce": (
        c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, c_void_p]),
    "r2cclAllGather": (
        c_int, [c_void_p, c_void_p, c_size_t, c_int, c_void_p, c_void_p]),
    "r2cclReduceScatter": (
        c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p]),
    "r2cclAllToAll": (
        c_int, [c_void_p, c_void_p, c_size_t, c_int, c_void_p, c_void_p]),
    "r2cclGather": (
        c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p]),
    "r2cclScatter": (
        c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p]),
    "r2cclRedOpCreatePreMulSum": (
        c_int, [c_void_p, c_void_p, c_int, c_int, c_void_p]),
    "r2cclRedOpDestroy": (
        c_int, [c_int, c_void_p]),
    "r2cclBarrier": (
        c_int, [c_void_p, c_void_p]),
    "r2cclAllGatherV": (
        c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_void_p, c_void_p]),
    "r2cclReduceScatterV": (
        c_int, [c_void_p, c_void_p, c_void_p, c_int, c_int, c_void_p, c_void_p]),
    "r2cclGatherV": (
        c_int, [c_void_p, c_size_t, c_void_p, c_void_p, c_void_p, c_int, c_int, c_void_p, c_void_p]),
    "r2cclScatterV": (
        c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p]),
    "r2cclAllToAllV": (
        c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_void_p, c_void_p]),
    "r2cclSend": (
        c_int, [c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p]),
    "r2cclRecv": (
        c_int, [c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p]),
    "r2cclSendTagged": (
        c_int, [c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, c_void_p]),
    "r2cclRecvTagged": (
        c_int, [c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, c_void_p, c_void_p]),
    "r2cclGroupStart": (
        c_int, []),
    "r2cclGroupEnd": (
        c_int, []),
    "r2cclMemAlloc": (
        c_int, [c_void_p, c_size_t]),
    "r2cclMemFree": (
        c_int, [c_void_p]),
    "r2cclCommRegister": (
        c_int, [c_void_p, c_void_p, c_size_t, c_void_p]),
    "r2cclCommDeregister": (
        c_int, [c_void_p, c_void_p]),
    "r2cclRequestTest": (
        c_int, [c_void_p, c_void_p]),
    "r2cclRequestWait": (
        c_int, [c_void_p, c_int64]),
    "r2cclRequestAbort": (
        c_int, [c_void_p]),
    "r2cclRequestWaitAll": (
        c_int, [c_int, c_void_p, c_int64]),
    "r2cclRequestWaitAny": (
        c_int, [c_int, c_void_p, c_void_p, c_int64]),
    "r2cclRequestTestAll": (
        c_int, [c_int, c_void_p, c_void_p]),
    "r2cclCommGetFd": (
        c_int, [c_void_p, c_void_p]),
}


def config(**fields):
    """Returns a r2cclConfig_t as R2CCL_CONFIG_INITIALIZER makes it, but with these fields."""
    unset = {"size": sizeof(r2cclConfig_t), "magic": R2CCL_CONFIG_MAGIC, "blocking": 1,
             "init_timeout_ms": R2CCL_CONFIG_UNDEF_INT, "cutoff_ms": R2CCL_CONFIG_UNDEF_INT}
    return r2cclConfig_t(**{**unset, **fields})


def declare(library):
    """Sets the types of all functions of a loaded library. Returns the library.

    Raises AttributeError when the library lacks a function."""
    for name, (result, arguments) in PROTOTYPES.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library
