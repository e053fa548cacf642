#include "convert/stream.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/dtype.h"
#include "loader/integers/int4.h"

enum { PIECE_BYTES = 8 << 20, ALIGNMENT = 64, LINE_K = 8, F16_ELEMENTS = 4096 };

yk_status yk_convert_put(yk_convert_stream *stream, const void *bytes, int64_t n_bytes, yk_err *err)
{
  for (int64_t at = 0; at < n_bytes; at += PIECE_BYTES) {
    int64_t piece = yk_min_i64(PIECE_BYTES, n_bytes - at);
    YK_TRY(stream->put(stream->file, (const char *)bytes + at, (size_t)piece, err));
    stream->done_bytes += piece;
    if (stream->progress && !stream->progress(stream->progress_user, stream->done_bytes, stream->total_bytes))
      return yk_err_set(err, YK_E_CANCELLED, "stopped; the unfinished output is removed");
  }
  return YK_OK;
}

/* Convert elements [first, first + n) to float16; fails if a value changes. */
static yk_status exact_f16(const char *name, yk_dtype dtype, const void *elements, int64_t first, int64_t n,
                           uint16_t *out, yk_err *err)
{
  int64_t element_bytes = (int64_t)yk_dtype_bytes(dtype);
  for (int64_t i = 0; i < n; i++) {
    uint32_t element; /* elements may be unaligned in the file */
    memcpy(&element, (const char *)elements + (first + i) * element_bytes, (size_t)element_bytes);
    float value = yk_dtype_load(dtype, &element, 0);
    out[i] = yk_f32_to_f16(value);
    if (yk_f32_bits(yk_f16_to_f32(out[i])) != yk_f32_bits(value))
      return yk_err_set(err, YK_E_UNSUPPORTED,
                        "%s: element %" PRId64
                        ", %.9g, is not exact in float16, the only type of floats in this format",
                        name, first + i, (double)value);
  }
  return YK_OK;
}

yk_status yk_convert_put_f16(yk_convert_stream *stream, const char *name, yk_dtype dtype, const void *elements,
                             int64_t n, yk_err *err)
{
  uint16_t halves[F16_ELEMENTS];
  if (dtype == YK_F16) return yk_convert_put(stream, elements, 2 * n, err);
  for (int64_t first = 0; first < n; first += F16_ELEMENTS) {
    int64_t count = yk_min_i64(F16_ELEMENTS, n - first);
    YK_TRY(exact_f16(name, dtype, elements, first, count, halves, err));
    YK_TRY(yk_convert_put(stream, halves, 2 * count, err));
  }
  return YK_OK;
}

/* ---- 4-bit integers ---------------------------------------------------------------------------------------------- */

/* A weight that is being written. Zero points and scales come with the integers, and are stored until all integers are
 * written. */
typedef struct int4_stream {
  const yk_weight_view *weight;
  int64_t zero_bytes, scale_bytes; /* per group */
  char *zeros, *scales;            /* over all groups */
  char *buffer;
  size_t buffer_bytes;
} int4_stream;

static yk_status reserve(int4_stream *s, size_t n_bytes, yk_err *err)
{
  if (n_bytes <= s->buffer_bytes) return YK_OK;
  free(s->buffer);
  s->buffer_bytes = (size_t)yk_round_up_i64((int64_t)n_bytes, ALIGNMENT);
  s->buffer = aligned_alloc(ALIGNMENT, s->buffer_bytes);
  if (s->buffer) return YK_OK;
  s->buffer_bytes = 0;
  return yk_err_set(err, YK_E_NOMEM, "no memory for %zu bytes of a weight", n_bytes);
}

static yk_status put_integers(yk_convert_stream *stream, int4_stream *s, yk_err *err)
{
  const yk_weight_view *weight = s->weight;
  int64_t step = yk_max_i64(LINE_K, PIECE_BYTES / (weight->n / 2) / LINE_K * LINE_K);
  for (int64_t k = 0; k < weight->k; k += step) {
    int64_t end = yk_min_i64(k + step, weight->k);
    const yk_weight_slice slice = {.k_begin = k, .k_end = end, .n_begin = 0, .n_end = weight->n};
    yk_int4_repacked repacked;
    YK_TRY(reserve(s, yk_int4_repacked_bytes(weight, &slice, NULL), err));
    YK_TRY(yk_int4_repack(weight, &slice, NULL, NULL, s->buffer, &repacked, err));
    int64_t row_bytes = weight->n / 2;
    const char *rows = (const char *)repacked.weight.qweight + (k - repacked.first_k) * row_bytes;
    YK_TRY(yk_convert_put(stream, rows, (end - k) * row_bytes, err));
    /* Two pieces may share a group: its scales and zero points are the same in both. */
    int64_t first = k / weight->group, n = yk_ceil_div_i64(end, weight->group) - first;
    memcpy(s->zeros + first * s->zero_bytes, repacked.weight.qzeros, (size_t)(n * s->zero_bytes));
    memcpy(s->scales + first * s->scale_bytes, repacked.weight.scales, (size_t)(n * s->scale_bytes));
  }
  return YK_OK;
}

/* Write one row per group, repeated for each of the smaller groups that the group is split into. */
static yk_status put_rows(yk_convert_stream *stream, const int4_stream *s, const char *rows, int64_t row_bytes,
                          int64_t repeats, yk_err *err)
{
  int64_t n_groups = s->weight->k / s->weight->group;
  if (repeats == 1) return yk_convert_put(stream, rows, n_groups * row_bytes, err);
  for (int64_t i = 0; i < n_groups * repeats; i++)
    YK_TRY(yk_convert_put(stream, rows + i / repeats * row_bytes, row_bytes, err));
  return YK_OK;
}

static yk_status put_all(yk_convert_stream *stream, int4_stream *s, int64_t repeats, const char *f16_name, yk_err *err)
{
  const yk_weight_view *weight = s->weight;
  int64_t n_scales = weight->k / weight->group * weight->n, scale_bytes = s->scale_bytes;
  YK_TRY(put_integers(stream, s, err));
  if (f16_name && weight->dtype != YK_F16) { /* converted in place: no element becomes larger */
    YK_TRY(exact_f16(f16_name, weight->dtype, s->scales, 0, n_scales, (uint16_t *)(void *)s->scales, err));
    scale_bytes = 2 * weight->n;
  }
  YK_TRY(put_rows(stream, s, s->zeros, s->zero_bytes, repeats, err));
  return put_rows(stream, s, s->scales, scale_bytes, repeats, err);
}

yk_status yk_convert_put_int4(yk_convert_stream *stream, const yk_weight_view *weight, int32_t group,
                              const char *f16_name, yk_err *err)
{
  int64_t n_groups = weight->k / weight->group;
  int4_stream s = {
      .weight = weight, .zero_bytes = weight->n / 2, .scale_bytes = weight->n * (int64_t)yk_dtype_bytes(weight->dtype)};
  s.zeros = malloc((size_t)(n_groups * s.zero_bytes));
  s.scales = malloc((size_t)(n_groups * s.scale_bytes));
  yk_status status = YK_OK;
  if (s.zeros && s.scales)
    status = put_all(stream, &s, group == -1 ? 1 : weight->group / group, f16_name, err);
  else
    status = yk_err_set(err, YK_E_NOMEM, "no memory for the scales of a weight");
  free(s.zeros);
  free(s.scales);
  free(s.buffer);
  return status;
}
