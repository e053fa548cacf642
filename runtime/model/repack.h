/* repack.h - the runtime's part of the weight path: all parts and matrices of a linear layer in the form that the
 * device takes. loader/repack.h repacks one weight.
 *
 * The form depends on the device (yk_model_device) and never on the data, so that plan and load agree: a part for which
 * linear_keeps is true keeps its format; all other parts become 16-bit floats. A plain part with as_int8 becomes 8-bit
 * integers. */
#ifndef YK_MODEL_REPACK_H
#define YK_MODEL_REPACK_H

#include "base/cpu_pool.h"
#include "model/model_limits.h"

/* Host memory reused from layer to layer. malloc'ed, and as large as the largest layer so far. */
typedef struct yk_rank_buffer {
  void *memory;
  size_t n_bytes;
} yk_rank_buffer;

/* yk_repack_layer - all parts of every matrix in the device's form. Views in *out point into buffer, which grows as
 *   needed, and into the checkpoint.
 *   pool: threads that share the work, or NULL. The result does not depend on the pool. Among several errors, the
 *   function returns the error of the first part, and within the part that of the first outputs or groups.
 *   Errors: YK_E_NOMEM; those of yk_repack. Thread: any. */
yk_status yk_repack_layer(const yk_model_device *dev, const yk_linear_spec *spec, yk_cpu_pool *pool,
                          yk_rank_buffer *buffer, yk_linear_spec *out, yk_err *err);

/* yk_repack_sorts - whether the inputs of a part with act order must be sorted by group; the caller then sets
 * k_places. */
bool yk_repack_sorts(const yk_model_device *dev, const yk_linear_part *part);

/* yk_repack_keeps_int8 - whether the device multiplies part i, a plain one with as_int8, as 8-bit integers. */
bool yk_repack_keeps_int8(const yk_model_device *dev, const yk_linear_spec *spec, int i);

/* yk_repack_bytes - device bytes of the repacked layer. Needs no weight data. */
int64_t yk_repack_bytes(const yk_model_device *dev, const yk_linear_spec *spec);

/* yk_repack_shared_bytes - device bytes that all layers share, if this one needs the most of them. */
int64_t yk_repack_shared_bytes(const yk_model_device *dev, const yk_linear_spec *spec);

/* yk_repack_divides - whether the device divides K of repacked part i into the layer's slices. */
bool yk_repack_divides(const yk_model_device *dev, const yk_linear_spec *spec, int i);

/* yk_repack_mixture_scratch_bytes - mixture_scratch_bytes for the repacked layers; both NULL on a rank without
 * experts. */
int64_t yk_repack_mixture_scratch_bytes(const yk_model_device *dev, const yk_mixture_sizes *sizes,
                                        const yk_linear_spec *gate_up, const yk_linear_spec *down);

/* yk_repack_n_unkept - parts that become 16-bit floats because the device does not keep their format or cannot sort
 *   their inputs. Parts converted on request (as_16_bits) do not count. */
int32_t yk_repack_n_unkept(const yk_model_device *dev, const yk_linear_spec *spec);

/* yk_repack_n_float_inputs - parts whose inputs stay floats, although the checkpoint quantises them: parts that become
 *   16-bit floats, and 4-bit weights whose inputs are not rounded. */
int32_t yk_repack_n_float_inputs(const yk_model_device *dev, const yk_linear_spec *spec);

/* yk_repack_dequantises - whether part i is quantised in the checkpoint and becomes 16-bit floats. */
bool yk_repack_dequantises(const yk_model_device *dev, const yk_linear_spec *spec, int i);

#endif
