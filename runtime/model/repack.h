/* repack.h - parts of a linear layer on their way from the checkpoint's form to one that the device takes.
 *
 *   a part of                                    is brought as
 *   floats                                       itself
 *   4-bit integers                               the slice in AWQ's gemm order (loader/integers/int4.h), or itself
 *   8 bits, where the device keeps them          the slice as rows of bytes (loader/integers/int8.h)
 *   8 bits, elsewhere or as_16_bits              the slice as 16-bit floats (integers/dequantise.h): a PLAIN part
 *   4 or 8 bits with act order                   the slice sorted by group (integers/group_order.h) and an order of x,
 *                                                where the device keeps both, else as 16-bit floats
 *   any of them with n_order                     the slice with its outputs in that order
 *
 * Which of them is decided by the device alone (yk_model_device), not by data, so that what is planned is what is
 * loaded. A slice that is brought is a weight of its own: it begins at input 0 and output 0, or close behind. */
#ifndef YK_MODEL_REPACK_H
#define YK_MODEL_REPACK_H

#include "base/cpu_pool.h"
#include "model/model_limits.h"

/* Host memory that lives from layer to layer: malloc'ed once, as large as the largest layer wanted. */
typedef struct yk_rank_buffer {
  void *memory;
  size_t n_bytes;
} yk_rank_buffer;

/* yk_repack_layer - all parts of every matrix as the device takes them; views of *out point into buffer, which grows,
 *   and into the checkpoint.
 *   pool: threads that share the work, or NULL; what comes out does not depend on them, and of several errors that of
 *   the first part, and in it of the first outputs or groups, is returned.
 *   Errors: YK_E_NOMEM; those of yk_int4_repack, yk_int8_repack and yk_dequantise. Thread: any. */
yk_status yk_repack_layer(const yk_model_device *dev, const yk_linear_spec *spec, yk_cpu_pool *pool,
                          yk_rank_buffer *buffer, yk_linear_spec *out, yk_err *err);

/* yk_repack_biases - biases of brought parts, where spec's have more to add than the checkpoint's own (folds_bias), as
 *   float32. They point into buffer, which grows. pool: as above. Errors: those of yk_folded_bias. Thread: any. */
yk_status yk_repack_biases(const yk_linear_spec *spec, yk_cpu_pool *pool, yk_rank_buffer *buffer,
                           yk_linear_spec *brought, yk_err *err);

/* yk_repack_sorts - whether a part with act order is to be sorted by group: its k_places are then to be set. */
bool yk_repack_sorts(const yk_model_device *dev, const yk_linear_part *part);

/* yk_repack_bytes - device bytes of the layer once it is brought; weights whose data is not there have them too. */
int64_t yk_repack_bytes(const yk_model_device *dev, const yk_linear_spec *spec);

/* yk_repack_mixture_scratch_bytes - mixture_scratch_bytes of a mixture of the layers once they are brought; both NULL
 * on
 *   a rank without experts. */
int64_t yk_repack_mixture_scratch_bytes(const yk_model_device *dev, const yk_mixture_sizes *sizes,
                                        const yk_linear_spec *gate_up, const yk_linear_spec *down);

/* yk_repack_n_unkept - parts that become 16-bit floats because the device does not keep their format, or their inputs
 *   cannot be sorted, not because they are asked to (as_16_bits). */
int32_t yk_repack_n_unkept(const yk_model_device *dev, const yk_linear_spec *spec);

/* yk_repack_n_float_inputs - parts whose inputs the checkpoint quantises, and which multiply floats all the same, since
 *   they become 16-bit floats themselves. */
int32_t yk_repack_n_float_inputs(const yk_model_device *dev, const yk_linear_spec *spec);

/* yk_repack_dequantises - whether part i is quantised in the checkpoint and becomes 16-bit floats on its way. */
bool yk_repack_dequantises(const yk_model_device *dev, const yk_linear_spec *spec, int i);

#endif
