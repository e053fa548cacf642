/* cpu_memory.h - memory of the CPU device. */
#ifndef YK_KERNELS_CPU_MEMORY_H
#define YK_KERNELS_CPU_MEMORY_H

#include "kernels/device.h"

/* alloc and free of yk_device_ops. */
yk_status yk_cpu_alloc(yk_device *dev, size_t n_bytes, void **out, yk_err *err);
void yk_cpu_free(yk_device *dev, void *ptr);

/* A large block of memory that several layers' weights share, so that large pages cover them: a single matrix begins
 * and ends inside a large page. Owner: the layers in it; freed with the last of them. */
typedef struct yk_cpu_chunk yk_cpu_chunk;

/* yk_cpu_weights_alloc - allocates zeroed memory for one layer, aligned to 256 bytes, from *current or from a new
 *   chunk, which then becomes *current. *chunk: the chunk of the memory; NULL for a small layer, which has separate
 *   memory.
 *   Errors: YK_E_CAPACITY. Thread: the device's. */
yk_status yk_cpu_weights_alloc(yk_cpu_chunk **current, size_t n_bytes, yk_cpu_chunk **chunk, void **out, yk_err *err);
void yk_cpu_weights_free(yk_cpu_chunk **current, yk_cpu_chunk *chunk, void *ptr);

#endif
