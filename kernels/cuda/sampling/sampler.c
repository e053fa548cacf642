/* sampler.c - the host side of sampling: sends parameters of rows to the GPU, returns sampled tokens, counts ids. */
#include "kernels/cuda/sampling/sampler.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/cuda/common/limits.h"
#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/device/staging.h"
#include "kernels/cuda/sampling/best_logits.h"
#include "kernels/cuda/sampling/sample_rows.h"

enum {
  TOKEN_CHUNK = 1 << 16, /* ids that yk_cuda_penalties_set uploads at once */
  MASK_CHUNK = 1 << 16,  /* words of masks that are copied at once, while the CPU prepares the next ones */
};

typedef struct yk_cuda_sampler {
  yk_cuda_sample_row *rows;  /* [max_seqs] pinned: the kernel reads them in place */
  yk_sampled *out;           /* [max_seqs] pinned: written by the kernel */
  yk_logit_bias *biases_dev; /* [bias_capacity]: the biases of one launch's rows */
  float *raw_dev;            /* [bias_capacity]: see yk_cuda_sample_row.raw_at_biases */
  uint32_t *masks;           /* [max_seqs, yk_mask_words(vocab)] pinned: the masks of one launch's rows */
  uint32_t *masks_dev;       /* their copy on the device */
  cudaStream_t mask_stream;  /* copies masks while the device's stream computes logits */
  cudaEvent_t masks_copied;  /* recorded after the last copy of a launch's masks */
  uint32_t *counts;          /* [max_seqs, vocab]: see YK_CUDA_COUNT_OUTPUT */
  int32_t *tokens;           /* [TOKEN_CHUNK] */
} yk_cuda_sampler;

/* Biases of all rows of a launch: one row may have as many as the vocabulary has ids. */
static int64_t bias_capacity(const yk_cuda_device *cuda)
{
  return (int64_t)cuda->limits.max_seqs + cuda->limits.vocab;
}

yk_status yk_cuda_sampler_create(yk_cuda_device *cuda, yk_err *err)
{
  size_t n_rows = (size_t)cuda->limits.max_seqs, vocab = (size_t)cuda->limits.vocab;
  size_t n_biases = (size_t)bias_capacity(cuda);
  size_t mask_bytes = n_rows * (size_t)yk_mask_words(cuda->limits.vocab) * sizeof(uint32_t);
  if (vocab > YK_CUDA_MAX_VOCAB)
    return yk_err_set(err, YK_E_UNSUPPORTED, "GPU %d: vocabulary: expected at most %d ids, found %zu", cuda->ordinal,
                      YK_CUDA_MAX_VOCAB, vocab);
  yk_cuda_sampler *s = calloc(1, sizeof *s);
  if (!s) return yk_err_set(err, YK_E_NOMEM, "GPU %d: no memory for a sampler", cuda->ordinal);
  cuda->sampler = s;
  YK_TRY(yk_cuda_check(cuda, cudaMallocHost((void **)&s->rows, n_rows * sizeof *s->rows), "pinned memory", err));
  YK_TRY(yk_cuda_check(cuda, cudaMallocHost((void **)&s->out, n_rows * sizeof *s->out), "pinned memory", err));
  YK_TRY(yk_cuda_check(cuda, cudaMallocHost((void **)&s->masks, mask_bytes), "pinned memory", err));
  YK_TRY(yk_cuda_check(cuda, cudaStreamCreateWithFlags(&s->mask_stream, cudaStreamNonBlocking), "stream", err));
  YK_TRY(yk_cuda_check(cuda, cudaEventCreateWithFlags(&s->masks_copied, cudaEventDisableTiming), "event", err));
  const struct {
    void **at;
    size_t n_bytes;
  } buffers[] = {{(void **)&s->biases_dev, n_biases * sizeof *s->biases_dev},
                 {(void **)&s->raw_dev, n_biases * sizeof *s->raw_dev},
                 {(void **)&s->masks_dev, mask_bytes},
                 {(void **)&s->counts, n_rows * vocab * sizeof *s->counts},
                 {(void **)&s->tokens, TOKEN_CHUNK * sizeof *s->tokens}};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
    YK_TRY(yk_cuda_alloc(&cuda->base, buffers[i].n_bytes, buffers[i].at, err));
  return YK_OK;
}

void yk_cuda_sampler_destroy(yk_cuda_sampler *s)
{
  if (!s) return;
  void *const buffers[] = {s->biases_dev, s->raw_dev, s->masks_dev, s->counts, s->tokens};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) cudaFree(buffers[i]);
  if (s->rows) cudaFreeHost(s->rows);
  if (s->out) cudaFreeHost(s->out);
  if (s->masks) cudaFreeHost(s->masks);
  if (s->masks_copied) cudaEventDestroy(s->masks_copied);
  if (s->mask_stream) cudaStreamDestroy(s->mask_stream);
  free(s);
}

/* Ids and slots of a row are within this device's limits. */
static yk_status check_row(const yk_cuda_device *cuda, const yk_sample_args *args, int32_t index, int32_t n_ids,
                           yk_err *err)
{
  const yk_sample_row *row = &args->rows[index];
  if (row->is_forced && (row->forced_id < 0 || row->forced_id >= n_ids))
    return yk_err_set(err, YK_E_INVAL, "sample: row %d: forced id %d: expected an id below %d", index, row->forced_id,
                      n_ids);
  if (row->has_penalties && (row->penalty_slot < 0 || row->penalty_slot >= cuda->limits.max_seqs))
    return yk_err_set(err, YK_E_INVAL, "sample: row %d: penalty slot %d: expected a slot below %d", index,
                      row->penalty_slot, cuda->limits.max_seqs);
  if (row->has_mask && !args->masks)
    return yk_err_set(err, YK_E_INVAL,
                      "sample: row %d: expected a row without a mask, since the step has none, found one", index);
  if (row->n_biases > n_ids)
    return yk_err_set(err, YK_E_INVAL, "sample: row %d: %d biases of %d ids", index, row->n_biases, n_ids);
  for (int64_t i = row->first_bias; i < row->first_bias + row->n_biases; i++)
    if (args->biases[i].token_id < 0 || args->biases[i].token_id >= n_ids)
      return yk_err_set(err, YK_E_INVAL, "sample: row %d: biased id %d: expected an id below %d", index,
                        args->biases[i].token_id, n_ids);
  return YK_OK;
}

/* The number of rows from `first` on that one launch takes: as many as the buffers hold. */
static int32_t rows_of_launch(const yk_cuda_device *cuda, const yk_sample_args *args, int32_t first)
{
  int32_t n = 0;
  int64_t n_biases = 0;
  while (first + n < args->n_rows && n < cuda->limits.max_seqs) {
    n_biases += yk_max_i64(args->rows[first + n].n_biases, 0);
    if (n_biases > bias_capacity(cuda)) break;
    n++;
  }
  return n;
}

/* Begins to copy n words of masks to the place `at` of the device's masks. */
static yk_status send_masks(yk_cuda_device *cuda, int64_t at, const uint32_t *words, int64_t n, yk_err *err)
{
  yk_cuda_sampler *s = cuda->sampler;
  for (int64_t done = 0; done < n; done += MASK_CHUNK) {
    uint32_t *pinned = s->masks + at + done;
    size_t n_bytes = (size_t)yk_min_i64(n - done, MASK_CHUNK) * sizeof *words;
    memcpy(pinned, words + done, n_bytes);
    YK_TRY(yk_cuda_check(
        cuda, cudaMemcpyAsync(s->masks_dev + at + done, pinned, n_bytes, cudaMemcpyHostToDevice, s->mask_stream),
        "upload of masks", err));
  }
  return YK_OK;
}

/* Copies the masks of the launch's rows to consecutive places, neighbours in args->masks together. Masks are late data:
 * usually the device's stream is still busy with layers. A copy in that stream would begin after them, and so would a
 * wait for the event, which also keeps the kernel from starting before its predecessor has ended. The copy therefore
 * has a separate stream, and the host waits for the event before it launches the kernel. */
static yk_status put_masks(yk_cuda_device *cuda, const yk_sample_args *args, int32_t first, int32_t n_rows, yk_err *err)
{
  yk_cuda_sampler *s = cuda->sampler;
  int64_t n_words = yk_mask_words(args->shard_first[args->n_shards]), at = 0, from = 0, n = 0;
  for (int32_t i = 0; i <= n_rows; i++) {
    const yk_sample_row *row = i < n_rows ? &args->rows[first + i] : NULL;
    if (row && !row->has_mask) continue;
    if (n > 0 && (!row || row->first_mask != from + n)) {
      YK_TRY(send_masks(cuda, at, args->masks + from, n, err));
      at += n;
      n = 0;
    }
    if (!row) break;
    if (n == 0) from = row->first_mask;
    s->rows[i].mask = s->masks_dev + at + n;
    n += n_words;
  }
  if (at == 0) return YK_OK;
  YK_TRY(yk_cuda_check(cuda, cudaEventRecord(s->masks_copied, s->mask_stream), "upload of masks", err));
  return yk_cuda_wait(cuda, s->masks_copied, "upload of masks", err);
}

/* Writes parameters of the launch's rows to the pinned memory that the kernel reads, and copies their biases and masks
 * to the device. The previous launch has ended, so all buffers are free. */
static yk_status put_rows(yk_cuda_device *cuda, const yk_sample_args *args, int32_t first, int32_t n_rows, yk_err *err)
{
  yk_cuda_sampler *s = cuda->sampler;
  int64_t at = 0;
  for (int32_t i = 0; i < n_rows; i++) {
    const yk_sample_row *row = &args->rows[first + i];
    s->rows[i] = (yk_cuda_sample_row){.row = *row, .biases = s->biases_dev + at, .raw_at_biases = s->raw_dev + at};
    if (row->n_biases <= 0) continue;
    YK_TRY(yk_cuda_upload(&cuda->base, s->biases_dev + at, args->biases + row->first_bias,
                          (size_t)row->n_biases * sizeof *args->biases, err));
    at += row->n_biases;
  }
  return put_masks(cuda, args, first, n_rows, err);
}

static yk_status run_launch(yk_cuda_device *cuda, const yk_sample_args *args, int32_t first, int32_t n_rows,
                            yk_err *err)
{
  yk_cuda_sampler *s = cuda->sampler;
  YK_TRY(put_rows(cuda, args, first, n_rows, err));
  yk_cuda_sample_launch launch = {.logits = (float *)(uintptr_t)args->logits,
                                  .n_rows = args->n_rows,
                                  .n_shards = args->n_shards,
                                  .shard_stride = args->shard_stride,
                                  .first_row = first,
                                  .n_launched = n_rows,
                                  .rows = s->rows,
                                  .counts = s->counts,
                                  .vocab = cuda->limits.vocab,
                                  .out = s->out};
  memcpy(launch.shard_first, args->shard_first, (size_t)(args->n_shards + 1) * sizeof *launch.shard_first);
  YK_TRY(yk_cuda_check(cuda, yk_cuda_launch_sample(&launch, cuda->stream), "sample", err));
  YK_TRY(yk_cuda_drain(cuda, "sample", err));
  memcpy(args->out + first, s->out, (size_t)n_rows * sizeof *s->out);
  return YK_OK;
}

/* Copy a row's raw logits to the host, if the row requests them. */
static yk_status copy_logits(yk_cuda_device *cuda, const yk_sample_args *args, int32_t row, yk_err *err)
{
  if (!args->rows[row].returns_logits) return YK_OK;
  float *to = args->logits_out + (int64_t)args->rows[row].logits_row * args->shard_first[args->n_shards];
  for (int32_t s = 0; s < args->n_shards; s++) {
    const float *from = args->logits + ((int64_t)s * args->n_rows + row) * args->shard_stride;
    size_t n = (size_t)(args->shard_first[s + 1] - args->shard_first[s]);
    YK_TRY(cuda->base.ops->download(&cuda->base, to + args->shard_first[s], from, n * sizeof *to, err));
  }
  return YK_OK;
}

yk_status yk_cuda_sample(yk_device *dev, const yk_sample_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  int32_t n_ids = args->shard_first[args->n_shards];
  if (args->n_shards > YK_CUDA_MAX_SHARDS)
    return yk_err_set(err, YK_E_UNSUPPORTED, "sample: expected at most %d shards, found %d", YK_CUDA_MAX_SHARDS,
                      args->n_shards);
  if (args->shard_first[0] != 0 || n_ids > cuda->limits.vocab)
    return yk_err_set(err, YK_E_INVAL, "sample: expected ids 0 to %d at most, found %d to %d", cuda->limits.vocab - 1,
                      args->shard_first[0], n_ids - 1);
  for (int32_t row = 0; row < args->n_rows; row++) YK_TRY(check_row(cuda, args, row, n_ids, err));
  YK_TRY(yk_cuda_enter(cuda, err));
  for (int32_t row = 0, n; row < args->n_rows; row += n) {
    n = rows_of_launch(cuda, args, row);
    YK_TRY(run_launch(cuda, args, row, n, err));
  }
  for (int32_t row = 0; row < args->n_rows; row++)
    if (args->out[row].state == YK_ROW_SAMPLED) YK_TRY(copy_logits(cuda, args, row, err));
  return YK_OK;
}

yk_status yk_cuda_best_logits(yk_device *dev, const yk_best_logits_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_check(cuda, yk_cuda_launch_best_logits(args, cuda->stream), "best logits", err);
}

yk_status yk_cuda_penalties_set(yk_device *dev, int32_t slot, const int32_t *tokens, int32_t n_prompt, int32_t n_tokens,
                                yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  int32_t vocab = cuda->limits.vocab;
  if (slot < 0 || slot >= cuda->limits.max_seqs)
    return yk_err_set(err, YK_E_INVAL, "penalties: slot: expected 0 to %d, found %d", cuda->limits.max_seqs - 1, slot);
  for (int32_t i = 0; i < n_tokens; i++)
    if (tokens[i] < 0 || tokens[i] >= vocab)
      return yk_err_set(err, YK_E_INVAL, "penalties: token %d: expected an id below %d, found %d", i, vocab, tokens[i]);
  uint32_t *counts = cuda->sampler->counts + (int64_t)slot * vocab;
  YK_TRY(yk_cuda_enter(cuda, err));
  YK_TRY(
      yk_cuda_check(cuda, cudaMemsetAsync(counts, 0, (size_t)vocab * sizeof *counts, cuda->stream), "penalties", err));
  for (int32_t done = 0; done < n_tokens; done += TOKEN_CHUNK) {
    int32_t n = (int32_t)yk_min_i64(TOKEN_CHUNK, n_tokens - done);
    YK_TRY(yk_cuda_upload(dev, cuda->sampler->tokens, tokens + done, (size_t)n * sizeof *tokens, err));
    YK_TRY(yk_cuda_check(cuda, yk_cuda_launch_count(counts, cuda->sampler->tokens, n, n_prompt - done, cuda->stream),
                         "penalties", err));
  }
  return YK_OK;
}
