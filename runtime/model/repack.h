/* repack.h - the runtime's end of a weight's way to its device: all parts and matrices of a linear layer in the form
 * that the device takes. loader/repack.h repacks one weight.
 *
 * The device alone decides the form (yk_model_device), not data, so that plan and load agree: linear_keeps of a part
 * leaves it in its format; all other parts become 16-bit floats. */
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
 *   Errors: YK_E_NOMEM; those of yk_repack. Thread: any. */
yk_status yk_repack_layer(const yk_model_device *dev, const yk_linear_spec *spec, yk_cpu_pool *pool,
                          yk_rank_buffer *buffer, yk_linear_spec *out, yk_err *err);

/* yk_repack_sorts - whether a part with act order is to be sorted by group: its k_places are then to be set. */
bool yk_repack_sorts(const yk_model_device *dev, const yk_linear_part *part);

/* yk_repack_bytes - device bytes of the layer once repacked; weights whose data is not there have them too. */
int64_t yk_repack_bytes(const yk_model_device *dev, const yk_linear_spec *spec);

/* yk_repack_mixture_scratch_bytes - mixture_scratch_bytes of a mixture of the layers once repacked; both NULL on a rank
 *   without experts. */
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
