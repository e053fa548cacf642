/* checkpoint.h - checkpoints made of others: in another format, or of fewer bits. Needs no engine. Of libyoke_tools. */
#ifndef YOKE_API_CHECKPOINT_H
#define YOKE_API_CHECKPOINT_H

#include <stdbool.h>

#include "yoke/device.h"
#include "yoke/limits.h"
#include "yoke/log.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Converting -------------------------------------------------------------------------------------------------- */

typedef enum yk_convert_format {
  YK_CONVERT_AWQ,   /* a Hugging Face directory in AWQ's "gemm" format */
  YK_CONVERT_KUIPER /* a file of KuiperLLama (magic "ak48", version 5) */
} yk_convert_format;

typedef struct yk_convert_options {
  size_t struct_size;
  const char *model_dir; /* as of yk_engine_options; of 4-bit integers in any format that it may have */
  const char *out;       /* AWQ: a directory that is not there, or empty; KuiperLLama: a file that is not there */
  yk_convert_format to;
  int64_t shard_bytes; /* AWQ: most data of a file, unless one tensor is more; default 5 GB */
  yk_log log;
  /* Called from the calling thread; false stops. May be NULL. */
  bool (*progress)(void *user, int64_t done_bytes, int64_t total_bytes);
  void *progress_user;
} yk_convert_options;

/* yk_convert_options_init - struct_size and every default above. Must come first. */
void yk_convert_options_init_sized(yk_convert_options *options, size_t struct_size);
static inline void yk_convert_options_init(yk_convert_options *options)
{
  yk_convert_options_init_sized(options, sizeof *options);
}

/* yk_convert - write a quantised model in another format, every number of it exactly as it was. Needs no GPU. Memory
 *   beside mapped files: some 20 MB and the scales of one layer. What is not finished, for whatever reason, leaves
 *   nothing at out.
 *   Errors: YK_E_INVAL (an option), those of reading the model, YK_E_UNSUPPORTED (what the other format cannot say,
 *   naming the tensor), YK_E_IO (out is taken; the disk is full), YK_E_CANCELLED (progress said so), YK_E_NOMEM. */
yk_status yk_convert(const yk_convert_options *options, yk_err *err);

/* ---- Quantising -------------------------------------------------------------------------------------------------- */

typedef enum yk_quantize_method {
  YK_QUANTIZE_RTN, /* each weight to the nearest of its group's 16 values */
  YK_QUANTIZE_AWQ  /* activation-aware: channels scaled and groups cut first, as a text's activations say is best */
} yk_quantize_method;

enum { YK_CALIBRATION_TOKENS = 8192, YK_CALIBRATION_ROWS = 512 };

typedef struct yk_quantize_options {
  size_t struct_size;
  const char *model_dir; /* a Hugging Face checkpoint of 16- or 32-bit weights */
  const char *out_dir;   /* made; or empty; or what an earlier call with the same options left unfinished */
  yk_quantize_method method;
  int32_t group_size;      /* inputs that share a scale: 32, 64, 128, or -1 for all; default 128 */
  const char *const *keep; /* [n_keep] modules stay that have one of these between dots of their names: "layers.0" */
  size_t n_keep;
  const char *calibration; /* AWQ: a text of UTF-8 [calibration_bytes]; else NULL */
  size_t calibration_bytes;
  int32_t calibration_tokens; /* AWQ: of the text's beginning; 16 to 2^20, default YK_CALIBRATION_TOKENS */
  yk_device_kind device;      /* auto: CUDA where there is any device, else CPU */
  int n_ranks;                /* 1 .. YK_MAX_RANKS devices, which take weight files in turn; default 1 */
  const int *device_ids;      /* [n_ranks] CUDA ordinals, or NULL for 0 .. n_ranks - 1 */
  int n_cpu_threads;          /* CPU: over all ranks; 0: every core */
  yk_log log;
  /* Called from the calling thread with what is being done: bytes of the checkpoint, or tokens of the text. False
   * stops: what is finished stays, and the same call goes on after it. May be NULL. */
  bool (*progress)(void *user, const char *what, int64_t done, int64_t total);
  void *progress_user;
} yk_quantize_options;

/* yk_quantize_options_init - struct_size and every default above. Must come first. */
void yk_quantize_options_init_sized(yk_quantize_options *options, size_t struct_size);
static inline void yk_quantize_options_init(yk_quantize_options *options)
{
  yk_quantize_options_init_sized(options, sizeof *options);
}

typedef struct yk_quantize_report {
  size_t struct_size;
  int32_t n_quantised, n_kept;       /* linear layers of the model; those that stay as they are, lm_head not counted */
  int32_t n_shards, n_shards_done;   /* weight files; those of them that are finished */
  int32_t n_shards_before;           /* and that an earlier call had finished */
  int64_t read_bytes, written_bytes; /* of this call's shards */
  double elapsed_s;
} yk_quantize_report;

/* yk_quantize - write a checkpoint of 4-bit weights in AWQ's "gemm" format, which vLLM and transformers read too.
 *   Linear layers are known by their names: those of Llama and of what is named alike, experts and latent attention
 *   among them. Embedding, lm_head, norms and router gates stay as they are, and so do layers whose inputs the group
 *   size does not divide, or whose outputs are no multiple of 8, with a warning. Experts of a layer that are one tensor
 *   ([experts, outputs, inputs]) become one layer each, named as where each has a tensor.
 *   Memory of a rank, beside mapped files: twice the largest layer's 4-bit form; AWQ: also the model with
 *   YK_CALIBRATION_ROWS inputs of every layer in float32, and while it searches those inputs in host memory and up to
 *   4096 outputs of a layer in float32. On a GPU what is not host memory is the GPU's, with the largest layer's weight.
 *   Neither device nor number of ranks and threads changes a byte, but of AWQ the kind of device: GPUs calibrate with
 *   the model's 16-bit activations, CPUs with float32.
 *   Errors: YK_E_INVAL (an option; a name to keep that no module has), YK_E_IO (files; out_dir holds something else),
 *   YK_E_FORMAT (the checkpoint; a weight that is not finite, named), YK_E_UNSUPPORTED (a checkpoint that is quantised
 *   already; AWQ of an architecture that Yoke does not run), YK_E_CANCELLED (progress said so), YK_E_NOMEM,
 *   YK_E_CAPACITY (memory of a device; more ranks than GPUs), YK_E_DEVICE. */
yk_status yk_quantize_sized(const yk_quantize_options *options, yk_quantize_report *out, size_t struct_size,
                            yk_err *err);
static inline yk_status yk_quantize(const yk_quantize_options *options, yk_quantize_report *out, yk_err *err)
{
  return yk_quantize_sized(options, out, sizeof *out, err);
}

#ifdef __cplusplus
}
#endif
#endif
