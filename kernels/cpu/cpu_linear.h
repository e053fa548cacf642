/* cpu_linear.h - how a linear layer lies in memory on the CPU device.
 *
 * AWQ parts are cut into panels of YK_CPU_PANEL output columns (see cpu_simd.h), the last padded with zeros. Plain
 * parts stay as they are in the checkpoint, a row for each output column. */
#ifndef YK_KERNELS_CPU_LINEAR_H
#define YK_KERNELS_CPU_LINEAR_H

#include "base/checked.h"
#include "kernels/cpu/cpu_device.h"

/* Bytes from the start of a layer's memory to each array of one part. */
typedef struct yk_cpu_part_layout {
  int64_t n_panels, n_lines, n_groups; /* n_lines: ceil(k / CHUNK_K) */
  int64_t weights;                     /* AWQ: words [n_panels, n_lines, PANEL, LANES]; plain: dtype [n, k] */
  int64_t scales;                      /* AWQ: f32 [n_panels, n_groups, PANEL] */
  int64_t zeros;                       /* AWQ: u8 [n_panels, n_groups, PANEL] */
  int64_t bias;                        /* f32 [n_panels, PANEL], where a bias is added */
  int64_t end;
} yk_cpu_part_layout;

typedef struct yk_cpu_part {
  yk_weight_format format;
  yk_dtype dtype; /* of plain weights */
  int64_t k, n, group;
  yk_cpu_part_layout layout;
  void *weights;  /* plain: of the layer, or where the device holds them already */
  int64_t stride; /* plain: elements from one column to the next */
  float *scales;
  uint8_t *zeros;
  const float *bias;    /* NULL without */
  int64_t first_column; /* of the part's outputs within a row of y */
} yk_cpu_part;

struct yk_linear {
  yk_cpu_part parts[YK_MAX_LINEAR_PARTS];
  int n_parts;
  yk_epilogue epilogue;
  bool f32_output;
  int32_t max_tokens;
  int64_t k, n_k;   /* n_k: k in whole chunks */
  int64_t x_stride; /* floats from a row of inputs to the next: no power of two, whose rows would share a place in the
                       cache */
  void *memory;     /* of all parts */
  yk_cpu_chunk *chunk;
};

/* Packing, a range of the work on one thread. source gives slice and checkpoint arrays, part the destination. */
typedef struct yk_cpu_pack {
  const yk_linear_part *source;
  const yk_cpu_part *part;
} yk_cpu_pack;

/* Both cut the work by output columns, as forward does: each thread writes, and so places, the memory that it reads.
 * yk_cpu_pack_awq - items: panels. yk_cpu_pack_plain - items: columns. Context: yk_cpu_pack.                         */
void yk_cpu_pack_awq(void *context, int thread, int64_t begin, int64_t end);
void yk_cpu_pack_plain(void *context, int thread, int64_t begin, int64_t end);

/* yk_cpu_awq_panel_of, yk_cpu_plain_panel_of - panel i of a part, as the inner loops take it. */
static inline yk_cpu_awq_panel yk_cpu_awq_panel_of(const yk_cpu_part *part, int64_t i)
{
  const yk_cpu_part_layout *layout = &part->layout;
  int64_t groups = layout->n_groups * YK_CPU_PANEL;
  return (yk_cpu_awq_panel){.words =
                                (const uint32_t *)part->weights + i * layout->n_lines * YK_CPU_PANEL * YK_CPU_LANES,
                            .scales = part->scales + i * groups,
                            .zeros = part->zeros + i * groups,
                            .n_lines = layout->n_lines,
                            .n_groups = layout->n_groups,
                            .group = part->group};
}

static inline yk_cpu_plain_panel yk_cpu_plain_panel_of(const yk_cpu_part *part, int64_t i)
{
  return (yk_cpu_plain_panel){.w = yk_cpu_at(part->dtype, part->weights, i * YK_CPU_PANEL * part->stride),
                              .dtype = part->dtype,
                              .k = part->k,
                              .stride = part->stride,
                              .n_columns = (int)yk_min_i64(YK_CPU_PANEL, part->n - i * YK_CPU_PANEL)};
}

#endif
