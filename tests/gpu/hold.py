"""Takes GPU memory through the driver alone and works on it: `hold.py BYTES SECONDS`.

Prints `holds`, then one line `steps N` a second. Ends with 2 when the memory cannot be had.
"""

import ctypes
import sys
import time

OUT_OF_MEMORY = 2
WORK_BYTES = 64 * 2**20

driver = ctypes.CDLL("libcuda.so.1")


def call(name: str, *arguments: object) -> None:
    code = getattr(driver, name)(*arguments)
    if code == OUT_OF_MEMORY:
        sys.exit(print("CUDA_ERROR_OUT_OF_MEMORY", flush=True) or 2)
    if code:
        sys.exit(f"{name}: error {code}")


def main(held_bytes: int, seconds: float) -> None:
    device, context, address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(held_bytes))
    print("holds", flush=True)
    end_s = time.monotonic() + seconds
    steps, told_s = 0, time.monotonic()
    while time.monotonic() < end_s:
        call("cuMemsetD8_v2", address, ctypes.c_ubyte(1), ctypes.c_size_t(WORK_BYTES))
        call("cuCtxSynchronize")
        steps += 1
        if time.monotonic() - told_s >= 1:
            print(f"steps {steps}", flush=True)
            steps, told_s = 0, time.monotonic()


main(int(sys.argv[1]), float(sys.argv[2]))
