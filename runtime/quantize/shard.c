/* shard.c - one weight file: each tensor copied, or quantised, in the order of the source, of which no more is in
 * memory than one tensor. */
#include "quantize/shard.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "loader/safetensors_write.h"
#include "quantize/awq_scales.h"
#include "quantize/output_files.h"

enum { PIECE_BYTES = 16 << 20, ALIGNMENT_BYTES = 64 };

/* Pages of the source that will not be read again do not count as this process's memory any more. */
static void release(const void *data, uint64_t n_bytes)
{
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t begin = ((uintptr_t)data + page - 1) / page * page, end = ((uintptr_t)data + n_bytes) / page * page;
  if (begin < end) madvise((void *)begin, end - begin, MADV_DONTNEED);
}

static yk_status advance(yk_quantize_run *run, int64_t n_bytes, yk_err *err)
{
  run->done_bytes += n_bytes;
  return yk_quantize_progress(run, "quantising", run->done_bytes, run->plan.total_bytes, err);
}

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

static yk_status copy(yk_quantize_run *run, const void *data, uint64_t n_bytes, yk_safetensors_writer *writer,
                      yk_err *err)
{
  for (uint64_t at = 0; at < n_bytes; at += PIECE_BYTES) {
    uint64_t piece = n_bytes - at < PIECE_BYTES ? n_bytes - at : PIECE_BYTES;
    YK_TRY(yk_safetensors_writer_put(writer, (const char *)data + at, piece, err));
    release((const char *)data + at, piece);
    YK_TRY(advance(run, (int64_t)piece, err));
  }
  return YK_OK;
}

/* The three tensors of a layer, side by side in the buffer. */
static yk_status quantise(yk_quantize_run *run, const yk_planned_tensor *tensor, const yk_tensor *made,
                          yk_safetensors_writer *writer, yk_err *err)
{
  const yk_tensor *source = tensor->source;
  yk_awq_floats weight = {.w = source->data,
                          .dtype = yk_quantize_dtype(source),
                          .n = source->shape[0],
                          .k = source->shape[1],
                          .group = yk_quantize_group(run->plan.group_size, source->shape[1])};
  size_t offsets[YK_QUANTISED_TENSORS + 1] = {0};
  for (int i = 0; i < YK_QUANTISED_TENSORS; i++)
    offsets[i + 1] = offsets[i] + (size_t)yk_round_up_i64((int64_t)made[i].n_bytes, ALIGNMENT_BYTES);
  YK_TRY(yk_quantize_reserve(&run->words, offsets[YK_QUANTISED_TENSORS], err));
  char *words = run->words.memory;
  const yk_awq_tensors out = {(uint32_t *)(void *)words, (uint32_t *)(void *)(words + offsets[1]),
                              (uint16_t *)(void *)(words + offsets[2])};
  if (run->scales) YK_TRY(yk_awq_scales_apply(run->scales, tensor->module, &weight, err));
  yk_status status = yk_awq_quantize(run->pool, &weight, &out, err);
  if (status != YK_OK) {
    yk_err_prefix(err, "%s: tensor %s", tensor->file, source->name);
    return status;
  }
  for (int i = 0; i < YK_QUANTISED_TENSORS; i++)
    YK_TRY(yk_safetensors_writer_put(writer, words + offsets[i], made[i].n_bytes, err));
  release(source->data, source->n_bytes);
  return advance(run, (int64_t)source->n_bytes, err);
}

static yk_status write_tensor(yk_quantize_run *run, const yk_planned_tensor *tensor, const yk_tensor *made,
                              yk_safetensors_writer *writer, yk_err *err)
{
  if (tensor->is_quantised) return quantise(run, tensor, made, writer, err);
  const void *folded = NULL;
  if (run->scales) YK_TRY(yk_awq_scales_fold(run->scales, tensor->source, tensor->module, &folded, err));
  return copy(run, folded ? folded : tensor->source->data, tensor->source->n_bytes, writer, err);
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

typedef struct file_list {
  size_t first, n_sources; /* in the plan */
  yk_tensor *made;         /* [n_made] */
  size_t n_made;
} file_list;

static void free_list(const yk_quantize_plan *plan, file_list *list)
{
  size_t at = 0;
  for (size_t i = 0; list->made && i < list->n_sources && at < list->n_made; i++) {
    bool is_quantised = plan->tensors[list->first + i].is_quantised;
    for (int j = 0; is_quantised && j < YK_QUANTISED_TENSORS; j++) free((char *)list->made[at + (size_t)j].name);
    at += is_quantised ? YK_QUANTISED_TENSORS : 1;
  }
  free(list->made);
}

static yk_status list_file(const yk_quantize_plan *plan, const char *file, file_list *list, yk_err *err)
{
  *list = (file_list){0};
  while (plan->tensors[list->first].file != file) list->first++;
  while (list->first + list->n_sources < plan->n_tensors && plan->tensors[list->first + list->n_sources].file == file)
    list->n_sources++;
  list->made = calloc(list->n_sources * YK_QUANTISED_TENSORS, sizeof *list->made);
  if (!list->made) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for a list of tensors", file);
  for (size_t i = 0; i < list->n_sources; i++) {
    int n = yk_quantize_tensors(plan, &plan->tensors[list->first + i], list->made + list->n_made);
    if (n == 0) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for a list of tensors", file);
    list->n_made += (size_t)n;
  }
  return YK_OK;
}

static yk_status write_file(yk_quantize_run *run, const file_list *list, yk_safetensors_writer *writer, yk_err *err)
{
  const yk_tensor *made = list->made;
  for (size_t i = 0; i < list->n_sources; i++) {
    const yk_planned_tensor *tensor = &run->plan.tensors[list->first + i];
    YK_TRY(write_tensor(run, tensor, made, writer, err));
    made += tensor->is_quantised ? YK_QUANTISED_TENSORS : 1;
  }
  return yk_safetensors_writer_finish(writer, err);
}

static void count(yk_quantize_report *report, const yk_quantize_plan *plan, const file_list *list)
{
  for (size_t i = 0; i < list->n_sources; i++)
    report->read_bytes += (int64_t)plan->tensors[list->first + i].source->n_bytes;
  for (size_t i = 0; i < list->n_made; i++) report->written_bytes += (int64_t)list->made[i].n_bytes;
}

yk_status yk_quantize_shard(yk_quantize_run *run, const char *file, yk_err *err)
{
  file_list list;
  yk_safetensors_writer *writer = NULL;
  yk_quantize_output_clear(&run->output);
  yk_status status = list_file(&run->plan, file, &list, err);
  if (status == YK_OK)
    status = yk_safetensors_writer_open(run->output.part_dir, list.made, list.n_made, INT64_MAX, &writer, err);
  if (status == YK_OK) status = write_file(run, &list, writer, err);
  yk_safetensors_writer_close(writer);
  if (status == YK_OK) status = yk_quantize_output_take(&run->output, file, err);
  if (status == YK_OK) count(run->report, &run->plan, &list);
  free_list(&run->plan, &list);
  return status;
}
