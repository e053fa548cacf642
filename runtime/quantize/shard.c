/* shard.c - one weight file: each tensor copied, or quantised, in the order of the source. */
#include "quantize/shard.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "loader/safetensors/safetensors_write.h"
#include "quantize/awq_scales.h"
#include "quantize/output_files.h"
#include "quantize/stream.h"

enum { PIECE_BYTES = 16 << 20, ALIGNMENT_BYTES = 256 };

static yk_status advance(const yk_quantize_rank *rank, int64_t n_bytes, yk_err *err)
{
  yk_quantize_run *run = rank->run;
  int64_t done = atomic_fetch_add(&run->done_bytes, n_bytes) + n_bytes;
  return yk_quantize_progress(rank, "quantising", done, run->plan.total_bytes, err);
}

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

static yk_status write_folded(const yk_quantize_rank *rank, const void *folded, uint64_t n_bytes,
                              yk_quantize_stream *stream, yk_err *err)
{
  void *buffer;
  YK_TRY(yk_quantize_stream_buffer(stream, n_bytes, &buffer, err));
  memcpy(buffer, folded, n_bytes);
  YK_TRY(yk_quantize_stream_put(stream, buffer, n_bytes, err));
  return advance(rank, (int64_t)n_bytes, err);
}

static yk_status copy(yk_quantize_rank *rank, const yk_tensor *source, yk_quantize_stream *stream, yk_err *err)
{
  if (source->column_stride > 0) {
    const void *rows;
    YK_TRY(yk_quantize_rows_of(source, &rank->rows, &rows, err));
    return write_folded(rank, rows, source->n_bytes, stream, err);
  }
  for (uint64_t at = 0; at < source->n_bytes; at += PIECE_BYTES) {
    uint64_t piece = source->n_bytes - at < PIECE_BYTES ? source->n_bytes - at : PIECE_BYTES;
    YK_TRY(yk_quantize_stream_put(stream, (const char *)source->data + at, piece, err));
    YK_TRY(advance(rank, (int64_t)piece, err));
  }
  return YK_OK;
}

/* The device writes the three tensors of a layer next to each other. words: device memory. */
static yk_status quantise_on(yk_quantize_rank *rank, const yk_planned_tensor *tensor, char *words,
                             const size_t *offsets, yk_err *err)
{
  const yk_tensor *source = tensor->source;
  yk_awq_quantize_args args = {.weight = {.dtype = yk_quantize_dtype(source),
                                          .n = source->shape[0],
                                          .k = source->shape[1],
                                          .group = yk_quantize_group(rank->run->plan.group_size, source->shape[1])},
                               .out = {(uint32_t *)(void *)words, (uint32_t *)(void *)(words + offsets[1]),
                                       (uint16_t *)(void *)(words + offsets[2])},
                               .found = rank->found.memory};
  const void *rows;
  YK_TRY(yk_quantize_rows_of(source, &rank->rows, &rows, err));
  YK_TRY(yk_quantize_show(rank, &rank->weight, rows, source->n_bytes, &args.weight.w, err));
  if (rank->scales) YK_TRY(yk_awq_scales_apply(rank->scales, tensor->module, &args.weight, err));
  yk_status status = rank->dev->ops->awq_quantize(rank->dev, &args, err);
  if (status == YK_OK) status = yk_quantize_found(rank, &args.weight, NULL, err);
  if (status != YK_OK) yk_err_prefix(err, "%s: tensor %s", tensor->file, source->name);
  return status;
}

static yk_status quantise(yk_quantize_rank *rank, const yk_planned_tensor *tensor, const yk_tensor *made,
                          yk_quantize_stream *stream, yk_err *err)
{
  const yk_tensor *source = tensor->source;
  yk_device *dev = rank->dev;
  size_t offsets[YK_QUANTISED_TENSORS + 1] = {0};
  void *buffer;
  for (int i = 0; i < YK_QUANTISED_TENSORS; i++)
    offsets[i + 1] = offsets[i] + (size_t)yk_round_up_i64((int64_t)made[i].n_bytes, ALIGNMENT_BYTES);
  size_t n_bytes = offsets[YK_QUANTISED_TENSORS];
  YK_TRY(yk_quantize_stream_buffer(stream, n_bytes, &buffer, err));
  if (!dev->ops->is_host) YK_TRY(yk_quantize_reserve(rank, &rank->words, n_bytes, err));
  char *words = dev->ops->is_host ? buffer : rank->words.memory;
  YK_TRY(quantise_on(rank, tensor, words, offsets, err));
  if (words != buffer) YK_TRY(dev->ops->download(dev, buffer, words, n_bytes, err));
  for (int i = 0; i < YK_QUANTISED_TENSORS; i++)
    YK_TRY(yk_quantize_stream_put(stream, (char *)buffer + offsets[i], made[i].n_bytes, err));
  yk_quantize_let_go(source->data, source->n_bytes);
  return advance(rank, (int64_t)source->n_bytes, err);
}

static yk_status write_tensor(yk_quantize_rank *rank, const yk_planned_tensor *tensor, const yk_tensor *made,
                              yk_quantize_stream *stream, yk_err *err)
{
  if (tensor->is_quantised) return quantise(rank, tensor, made, stream, err);
  const void *folded = NULL;
  if (rank->scales) YK_TRY(yk_awq_scales_fold(rank->scales, tensor->source, tensor->module, &folded, err));
  if (folded) return write_folded(rank, folded, tensor->source->n_bytes, stream, err);
  return copy(rank, tensor->source, stream, err);
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

typedef struct file_list {
  size_t first, n_sources;   /* indices in the plan */
  const yk_tensor **sources; /* [n_sources] */
  yk_tensor *made;           /* [n_made] */
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
  free(list->sources);
}

static yk_status list_file(const yk_quantize_plan *plan, const char *file, file_list *list, yk_err *err)
{
  *list = (file_list){0};
  while (plan->tensors[list->first].file != file) list->first++;
  while (list->first + list->n_sources < plan->n_tensors && plan->tensors[list->first + list->n_sources].file == file)
    list->n_sources++;
  list->made = calloc(list->n_sources * YK_QUANTISED_TENSORS, sizeof *list->made);
  list->sources = calloc(list->n_sources, sizeof *list->sources);
  if (!list->made || !list->sources) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for a list of tensors", file);
  for (size_t i = 0; i < list->n_sources; i++) {
    list->sources[i] = plan->tensors[list->first + i].source;
    int n = yk_quantize_tensors(plan, &plan->tensors[list->first + i], list->made + list->n_made);
    if (n == 0) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for a list of tensors", file);
    list->n_made += (size_t)n;
  }
  return YK_OK;
}

static yk_status write_tensors(yk_quantize_rank *rank, const file_list *list, yk_quantize_stream *stream, yk_err *err)
{
  const yk_tensor *made = list->made;
  for (size_t i = 0; i < list->n_sources; i++) {
    const yk_planned_tensor *tensor = &rank->run->plan.tensors[list->first + i];
    YK_TRY(write_tensor(rank, tensor, made, stream, err));
    made += tensor->is_quantised ? YK_QUANTISED_TENSORS : 1;
    yk_quantize_stream_pass(stream);
  }
  return yk_quantize_stream_drain(stream, err);
}

static yk_status write_file(yk_quantize_rank *rank, const file_list *list, yk_safetensors_writer *writer, yk_err *err)
{
  yk_quantize_stream *stream;
  YK_TRY(yk_quantize_stream_open(rank->dev, writer, list->sources, list->n_sources, &stream, err));
  yk_status status = write_tensors(rank, list, stream, err);
  yk_quantize_stream_close(stream);
  YK_TRY(status);
  return yk_safetensors_writer_finish(writer, err);
}

static void count(yk_quantize_report *report, const yk_quantize_plan *plan, const file_list *list)
{
  for (size_t i = 0; i < list->n_sources; i++)
    report->read_bytes += (int64_t)plan->tensors[list->first + i].source->n_bytes;
  for (size_t i = 0; i < list->n_made; i++) report->written_bytes += (int64_t)list->made[i].n_bytes;
}

yk_status yk_quantize_shard(yk_quantize_rank *rank, const char *file, yk_err *err)
{
  yk_quantize_run *run = rank->run;
  char folder[YK_PATH_BYTES];
  file_list list;
  yk_safetensors_writer *writer = NULL;
  YK_TRY(yk_quantize_output_folder(&run->output, rank->index, folder, err));
  yk_status status = list_file(&run->plan, file, &list, err);
  if (status == YK_OK) status = yk_safetensors_writer_open(folder, list.made, list.n_made, INT64_MAX, &writer, err);
  if (status == YK_OK) status = write_file(rank, &list, writer, err);
  yk_safetensors_writer_close(writer);
  status = yk_shards_settle(run->plan.shards, status, err);
  status = yk_checkpoint_settle(run->checkpoint, status, err);
  if (status == YK_OK) status = yk_quantize_output_take(&run->output, rank->index, file, err);
  pthread_mutex_lock(&run->mutex);
  if (status == YK_OK) count(run->report, &run->plan, &list);
  pthread_mutex_unlock(&run->mutex);
  free_list(&run->plan, &list);
  return status;
}
