"""What drivers and frameworks say last when a GPU has no memory left for a program.

Rule: words that nothing else says; who fails for want of the machine's own memory is not meant.
"""

EXHAUSTED = (
    "CUDA out of memory",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "cudaErrorMemoryAllocation",
    "HIP out of memory",
    "hipErrorOutOfMemory",
    "RESOURCE_EXHAUSTED: Out of memory",
    "OOM when allocating tensor",
)
