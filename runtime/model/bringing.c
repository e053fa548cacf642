#include "model/bringing.h"

#include <stdlib.h>

#include "base/checked.h"
#include "kernels/cpu/cpu_simd.h"
#include "loader/dequantise.h"
#include "loader/int4.h"
#include "loader/int8.h"

/* Of a slice that is dequantised: a block is floats in a cache before it is rounded. */
enum { BLOCK_K = 4096, BLOCK_N = 32, SCRATCH_BYTES = BLOCK_K * BLOCK_N * (int)sizeof(float) };

/* ---- What becomes of a part -------------------------------------------------------------------------------------- */

typedef enum way { AS_IT_IS, INT4_CHECKED, INT4_REPACKED, BYTES_REPACKED, DEQUANTISED } way;

static bool keeps(const yk_model_device *dev, const yk_linear_spec *spec, int i)
{
  if (dev->linear_keeps) return dev->linear_keeps(spec, i);
  yk_weight_format format = spec->parts[i].weight.format;
  return format == YK_WEIGHT_PLAIN || format == YK_WEIGHT_AWQ;
}

bool yk_bring_dequantises(const yk_model_device *dev, const yk_linear_spec *spec, int i)
{
  const yk_linear_part *part = &spec->parts[i];
  bool is_bytes = part->weight.format == YK_WEIGHT_INT8 || part->weight.format == YK_WEIGHT_FP8;
  return (is_bytes && part->as_16_bits) || !keeps(dev, spec, i);
}

static bool is_empty(const yk_linear_part *part)
{
  return yk_range_size(part->k) == 0 || yk_range_size(part->n) == 0;
}

static way way_of(const yk_model_device *dev, const yk_linear_spec *spec, int i)
{
  const yk_linear_part *part = &spec->parts[i];
  if (yk_bring_dequantises(dev, spec, i)) return DEQUANTISED;
  switch (part->weight.format) {
  case YK_WEIGHT_AWQ:
    if (is_empty(part)) return AS_IT_IS;
    return yk_int4_is_ready(&part->weight) ? INT4_CHECKED : INT4_REPACKED;
  case YK_WEIGHT_INT8:
  case YK_WEIGHT_FP8: return BYTES_REPACKED;
  case YK_WEIGHT_PLAIN: break;
  }
  return AS_IT_IS;
}

static yk_weight_slice slice_of(const yk_linear_part *part)
{
  return (yk_weight_slice){part->k.begin, part->k.end, part->n.begin, part->n.end};
}

static yk_dtype plain_dtype(const yk_model_device *dev)
{
  return dev->dtype == YK_F32 ? YK_F16 : dev->dtype;
}

static int64_t plain_bytes(const yk_model_device *dev, const yk_linear_part *part)
{
  int64_t n_elements = yk_range_size(part->k) * yk_range_size(part->n);
  return yk_round_up_i64(n_elements * (int64_t)yk_dtype_bytes(plain_dtype(dev)), YK_DEVICE_ALIGNMENT_BYTES);
}

/* What a part takes of the buffer. */
static int64_t buffer_bytes(const yk_model_device *dev, const yk_linear_spec *spec, int i)
{
  const yk_linear_part *part = &spec->parts[i];
  const yk_weight_slice slice = slice_of(part);
  int64_t n_bytes = 0;
  if (is_empty(part)) return 0;
  switch (way_of(dev, spec, i)) {
  case INT4_REPACKED: n_bytes = (int64_t)yk_int4_repacked_bytes(&part->weight, &slice); break;
  case BYTES_REPACKED: n_bytes = (int64_t)yk_int8_repacked_bytes(&part->weight, &slice, part->group_local); break;
  case DEQUANTISED: n_bytes = plain_bytes(dev, part) + SCRATCH_BYTES; break;
  case AS_IT_IS:
  case INT4_CHECKED: break;
  }
  return yk_round_up_i64(n_bytes, YK_DEVICE_ALIGNMENT_BYTES);
}

/* ---- A part that is no longer where the checkpoint has it -------------------------------------------------------- */

/* The slice becomes the whole weight. */
static void begin_at_0(yk_linear_part *part)
{
  yk_weight_view *weight = &part->weight;
  if (weight->bias)
    weight->bias = (const char *)weight->bias + (size_t)part->n.begin * yk_dtype_bytes(weight->bias_dtype);
  part->k = (yk_range){0, yk_range_size(part->k)};
  part->n = (yk_range){0, yk_range_size(part->n)};
  weight->k = part->k.end;
  weight->n = part->n.end;
}

/* The part that a dequantised one becomes, without its data. */
static yk_linear_part plain_part(const yk_model_device *dev, const yk_linear_part *part)
{
  yk_linear_part plain = *part;
  begin_at_0(&plain);
  const yk_weight_view *weight = &plain.weight;
  plain.weight = (yk_weight_view){.format = YK_WEIGHT_PLAIN,
                                  .k = weight->k,
                                  .n = weight->n,
                                  .dtype = plain_dtype(dev),
                                  .tensor = weight->tensor,
                                  .bias = weight->bias,
                                  .bias_dtype = weight->bias_dtype};
  plain.group_local = 0;
  plain.as_16_bits = false;
  return plain;
}

/* memory: plain_bytes, then SCRATCH_BYTES. */
static yk_status dequantise(const yk_model_device *dev, yk_linear_part *part, char *memory, yk_err *err)
{
  const yk_cpu_simd *simd = yk_cpu_simd_best();
  const yk_linear_part source = *part;
  *part = plain_part(dev, &source);
  part->weight.plain = memory;
  yk_dtype dtype = part->weight.dtype;
  float *floats = (float *)(void *)(memory + plain_bytes(dev, &source));
  yk_weight_slice block;
  for (block.k_begin = source.k.begin; block.k_begin < source.k.end; block.k_begin = block.k_end) {
    block.k_end = yk_min_i64(yk_round_up_i64(block.k_begin + 1, BLOCK_K), source.k.end);
    int64_t n_k = block.k_end - block.k_begin;
    for (block.n_begin = source.n.begin; block.n_begin < source.n.end; block.n_begin = block.n_end) {
      block.n_end = yk_min_i64(yk_round_up_i64(block.n_begin + 1, BLOCK_N), source.n.end);
      YK_TRY(yk_dequantise(&source.weight, &block, floats, BLOCK_K, err));
      for (int64_t n = block.n_begin; n < block.n_end; n++) {
        int64_t to = (n - source.n.begin) * part->weight.k + (block.k_begin - source.k.begin);
        simd->from_f32(memory + to * (int64_t)yk_dtype_bytes(dtype), dtype, floats + (n - block.n_begin) * BLOCK_K,
                       (size_t)n_k);
      }
    }
  }
  return YK_OK;
}

static yk_status repack_int4(yk_linear_part *part, void *memory, yk_err *err)
{
  const yk_weight_slice slice = slice_of(part);
  yk_int4_repacked repacked;
  YK_TRY(yk_int4_repack(&part->weight, &slice, memory, &repacked, err));
  part->weight = repacked.weight;
  part->k = (yk_range){slice.k_begin - repacked.first_k, slice.k_end - repacked.first_k};
  part->n = (yk_range){slice.n_begin - repacked.first_n, slice.n_end - repacked.first_n};
  return YK_OK;
}

static yk_status repack_bytes(yk_linear_part *part, void *memory, yk_err *err)
{
  const yk_weight_slice slice = slice_of(part);
  yk_weight_view repacked;
  YK_TRY(yk_int8_repack(&part->weight, &slice, part->group_local, memory, &repacked, err));
  begin_at_0(part);
  part->weight = repacked;
  return YK_OK;
}

/* ---- All parts --------------------------------------------------------------------------------------------------- */

static yk_status bring_part(const yk_model_device *dev, const yk_linear_spec *spec, int i, char *memory,
                            yk_linear_part *out, yk_err *err)
{
  const yk_weight_slice slice = slice_of(out);
  way chosen = way_of(dev, spec, i);
  if (is_empty(out)) {
    if (chosen == DEQUANTISED) *out = plain_part(dev, out);
    return YK_OK;
  }
  switch (chosen) {
  case INT4_CHECKED: return yk_int4_check_scales(&out->weight, &slice, err);
  case INT4_REPACKED: return repack_int4(out, memory, err);
  case BYTES_REPACKED: return repack_bytes(out, memory, err);
  case DEQUANTISED: return dequantise(dev, out, memory, err);
  case AS_IT_IS: break;
  }
  return YK_OK;
}

static yk_status reserve(yk_rank_buffer *buffer, size_t n_bytes, yk_err *err)
{
  if (n_bytes <= buffer->n_bytes) return YK_OK;
  free(buffer->memory);
  *buffer = (yk_rank_buffer){.memory = malloc(n_bytes + YK_DEVICE_ALIGNMENT_BYTES)};
  if (!buffer->memory) return yk_err_set(err, YK_E_NOMEM, "no memory for %zu bytes of repacked weights", n_bytes);
  buffer->n_bytes = n_bytes;
  return YK_OK;
}

yk_status yk_bring(const yk_model_device *dev, const yk_linear_spec *spec, yk_rank_buffer *buffer, yk_linear_spec *out,
                   yk_err *err)
{
  int64_t n_bytes = 0;
  for (int i = 0; i < spec->n_parts; i++) n_bytes += buffer_bytes(dev, spec, i);
  YK_TRY(reserve(buffer, (size_t)n_bytes, err));
  uintptr_t unaligned = (uintptr_t)buffer->memory % YK_DEVICE_ALIGNMENT_BYTES;
  char *memory = (char *)buffer->memory + (unaligned ? YK_DEVICE_ALIGNMENT_BYTES - unaligned : 0);
  *out = *spec;
  for (int i = 0; i < spec->n_parts; i++) {
    YK_TRY(bring_part(dev, spec, i, memory, &out->parts[i], err));
    memory += buffer_bytes(dev, spec, i);
  }
  return YK_OK;
}

int64_t yk_bring_bytes(const yk_model_device *dev, const yk_linear_spec *spec)
{
  yk_linear_spec brought = *spec;
  for (int i = 0; i < spec->n_parts; i++)
    if (yk_bring_dequantises(dev, spec, i)) brought.parts[i] = plain_part(dev, &spec->parts[i]);
  return dev->linear_bytes(&brought);
}

int32_t yk_bring_n_unkept(const yk_model_device *dev, const yk_linear_spec *spec)
{
  int32_t n = 0;
  for (int i = 0; i < spec->n_parts; i++) n += !spec->parts[i].as_16_bits && !keeps(dev, spec, i);
  return n;
}

int32_t yk_bring_n_float_inputs(const yk_model_device *dev, const yk_linear_spec *spec)
{
  int32_t n = 0;
  for (int i = 0; i < spec->n_parts; i++)
    n += spec->parts[i].weight.inputs.kind != YK_INPUTS_FLOAT && yk_bring_dequantises(dev, spec, i);
  return n;
}
