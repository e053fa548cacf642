#include "model/step_arrays.h"

#include <string.h>

#include "base/checked.h"

/* The value of elements beyond those of the decode step. */
typedef enum padding {
  PAD_ZERO,
  PAD_NONE /* -1; of state_loads YK_STATE_KEEP */,
  PAD_N_SEQS /* the number of sequences that are not padding */
} padding;

typedef struct array_spec {
  const char *name;
  size_t element_bytes, alignment;
  yk_step_part part;
  padding padding;
} array_spec;

enum { PART_RANKS = YK_STEP_RANKS, PART_SAMPLING = YK_STEP_FOR_SAMPLING, PART_LATE = YK_STEP_FOR_SAMPLING_LATE };

static const array_spec specs[YK_STEP_N_ARRAYS] = {
#define ROW(constant, function, element, part_of, length, pad)                                                         \
  {.name = #function,                                                                                                  \
   .element_bytes = sizeof(element),                                                                                   \
   .alignment = _Alignof(element),                                                                                     \
   .part = (yk_step_part)PART_##part_of,                                                                               \
   .padding = PAD_##pad},
    YK_STEP_ARRAYS(ROW)
#undef ROW
};

int64_t yk_step_array_length(yk_step_array array, const yk_step_counts *c)
{
  const int64_t lengths[YK_STEP_N_ARRAYS] = {
#define LENGTH(constant, function, element, part, length, padding) length,
      YK_STEP_ARRAYS(LENGTH)
#undef LENGTH
  };
  return lengths[array];
}

const char *yk_step_array_name(yk_step_array array)
{
  return specs[array].name;
}

size_t yk_step_array_element_bytes(yk_step_array array)
{
  return specs[array].element_bytes;
}

yk_step_part yk_step_array_part(yk_step_array array)
{
  return specs[array].part;
}

yk_step_layout yk_step_layout_of(const yk_step_counts *counts)
{
  yk_step_layout layout = {0};
  size_t at = 0;
  for (int i = 0; i < YK_STEP_N_ARRAYS; i++) {
    const array_spec *spec = &specs[i];
    at = (at + spec->alignment - 1) / spec->alignment * spec->alignment;
    layout.offset[i] = at;
    at += (size_t)yk_step_array_length((yk_step_array)i, counts) * spec->element_bytes;
    if (spec->part == YK_STEP_RANKS) layout.rank_bytes = at;
  }
  layout.n_bytes = at;
  return layout;
}

yk_step_counts yk_step_counts_max(const yk_device_limits *limits)
{
  return (yk_step_counts){.n_tokens = limits->max_tokens,
                          .n_seqs = limits->max_seqs,
                          .max_rows_per_seq = limits->max_tokens,
                          .max_kv_tokens = limits->max_model_tokens,
                          .block_table_stride = (int32_t)yk_ceil_div_i64(limits->max_model_tokens, YK_KV_BLOCK_TOKENS),
                          .n_wanted = limits->max_tokens,
                          .n_logits = limits->max_tokens,
                          .n_copies = YK_STEP_MAX_COPIES,
                          .n_hidden = limits->max_seqs,
                          .n_penalty_loads = limits->max_seqs,
                          .has_adapters = limits->n_adapters > 0};
}

/* Copy n elements to `to`, then pad up to size. */
static void put(int32_t *to, const int32_t *from, int64_t n, int32_t value, int64_t size)
{
  memcpy(to, from, (size_t)n * sizeof *to);
  for (int64_t i = n; i < size; i++) to[i] = value;
}

/* A block table has one row per sequence; each row is padded to the new stride. */
static void put_tables(int32_t *to, const yk_step_counts *to_counts, const int32_t *from, const yk_step_counts *counts)
{
  int64_t from_stride = counts->block_table_stride, to_stride = to_counts->block_table_stride;
  for (int64_t seq = 0; seq < counts->n_seqs; seq++)
    put(to + seq * to_stride, from + seq * from_stride, from_stride, 0, to_stride);
  memset(to + counts->n_seqs * to_stride, 0, (size_t)((to_counts->n_seqs - counts->n_seqs) * to_stride) * sizeof *to);
}

void yk_step_pad(void *to_block, const yk_step_counts *to, const void *from_block, const yk_step_counts *from)
{
  const int32_t values[] = {[PAD_ZERO] = 0, [PAD_NONE] = -1, [PAD_N_SEQS] = from->n_seqs};
  yk_step_layout to_layout = yk_step_layout_of(to), from_layout = yk_step_layout_of(from);
  for (int i = 0; i < YK_STEP_N_ARRAYS && specs[i].part == YK_STEP_RANKS; i++) {
    int32_t *target = (int32_t *)(void *)((char *)to_block + to_layout.offset[i]);
    const int32_t *source = (const int32_t *)(const void *)((const char *)from_block + from_layout.offset[i]);
    if (i == YK_STEP_BLOCK_TABLES)
      put_tables(target, to, source, from);
    else
      put(target, source, yk_step_array_length((yk_step_array)i, from), values[specs[i].padding],
          yk_step_array_length((yk_step_array)i, to));
  }
}
