/* cpu_memory.h - memory of the CPU device. */
#ifndef YK_KERNELS_CPU_MEMORY_H
#define YK_KERNELS_CPU_MEMORY_H

#include "kernels/device.h"

/* alloc and free of yk_device_ops. */
yk_status yk_cpu_alloc(yk_device *dev, size_t n_bytes, void **out, yk_err *err);
void yk_cpu_free(yk_device *dev, void *ptr);

/* A large piece of memory that several layers' weights share, so that large pages cover them: a matrix alone begins
 * and ends inside one. Owner: the layers in it; it goes with the last. */
typedef struct yk_cpu_chunk yk_cpu_chunk;

/* yk_cpu_weights_alloc - zeroed memory for one layer, aligned to 256 bytes, of *current or of a new chunk, which
 * *current then is. *chunk is where it came from; NULL for a small layer, which has memory of its own.
 *   Errors: YK_E_CAPACITY. Thread: the device's. */
yk_status yk_cpu_weights_alloc(yk_cpu_chunk **current, size_t n_bytes, yk_cpu_chunk **chunk, void **out, yk_err *err);
void yk_cpu_weights_free(yk_cpu_chunk **current, yk_cpu_chunk *chunk, void *ptr);

#endif
