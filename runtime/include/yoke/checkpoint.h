/* checkpoint.h - writes a checkpoint in another format, or with 4-bit weights. Needs no engine. Part of
 * libyoke_tools. */
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
  const char *model_dir; /* as in yk_engine_options; 4-bit integer weights in any supported format */
  const char *out;       /* AWQ: an empty or absent directory; KuiperLLama: an absent file */
  yk_convert_format to;
  int64_t shard_bytes; /* AWQ: maximum data of a file, unless one tensor is larger; default 5 GB */
  yk_log log;
  /* Called on the calling thread; false cancels. May be NULL. */
  bool (*progress)(void *user, int64_t done_bytes, int64_t total_bytes);
  void *progress_user;
} yk_convert_options;

/* yk_convert_options_init - struct_size and every default above. Must come first. */
void yk_convert_options_init_sized(yk_convert_options *options, size_t struct_size);
static inline void yk_convert_options_init(yk_convert_options *options)
{
  yk_convert_options_init_sized(options, sizeof *options);
}

/* yk_convert - write a quantised model in another format; every number keeps its exact value. Needs no GPU. Memory
 *   besides mapped files: some 20 MB and the scales of one layer. A conversion that does not finish leaves no file at
 *   out.
 *   Errors: YK_E_INVAL (an option), those of reading the model, YK_E_UNSUPPORTED (a value that the other format cannot
 *   express, naming the tensor), YK_E_IO (out exists; the disk is full), YK_E_CANCELLED (progress returned false),
 *   YK_E_NOMEM. */
yk_status yk_convert(const yk_convert_options *options, yk_err *err);

/* ---- Quantising -------------------------------------------------------------------------------------------------- */

typedef enum yk_quantize_method {
  YK_QUANTIZE_RTN, /* round each weight to the nearest of its group's 16 values */
  YK_QUANTIZE_AWQ  /* activation-aware: first scales channels and clips groups by the activations of a text */
} yk_quantize_method;

enum { YK_CALIBRATION_TOKENS = 8192, YK_CALIBRATION_ROWS = 512 };

typedef struct yk_quantize_options {
  size_t struct_size;
  const char *model_dir; /* a Hugging Face checkpoint of 16- or 32-bit weights */
  const char *out_dir;   /* absent, empty, or left unfinished by an earlier call with the same options */
  yk_quantize_method method;
  int32_t group_size; /* inputs that share a scale: 32, 64, 128, or -1 for all; default 128 */
  /* [n_keep] parts of module names between dots, "layers.0": modules with one of them stay unquantised */
  const char *const *keep;
  size_t n_keep;
  const char *calibration; /* AWQ: UTF-8 text [calibration_bytes]; else NULL */
  size_t calibration_bytes;
  int32_t calibration_tokens; /* AWQ: tokens from the text's beginning; 16 to 2^20, default YK_CALIBRATION_TOKENS */
  yk_device_kind device;      /* auto: CUDA if there is any device, else CPU */
  int n_ranks;                /* 1 .. YK_MAX_RANKS devices, which share out the weight files; default 1 */
  const int *device_ids;      /* [n_ranks] CUDA ordinals, or NULL for 0 .. n_ranks - 1 */
  int n_cpu_threads;          /* CPU: over all ranks; 0: every core */
  yk_log log;
  /* Called on the calling thread; what: the present work; done, total: bytes of the checkpoint, or tokens of the text.
   * False cancels: finished files stay, and the same call continues after them. May be NULL. */
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
  int32_t n_quantised, n_kept;       /* linear layers of the model; those left unquantised, without lm_head */
  int32_t n_shards, n_shards_done;   /* weight files; finished weight files */
  int32_t n_shards_before;           /* finished by an earlier call */
  int64_t read_bytes, written_bytes; /* of the shards of this call */
  double elapsed_s;
} yk_quantize_report;

/* yk_quantize - write a checkpoint of 4-bit weights in AWQ's "gemm" format, which vLLM and transformers read too.
 *   Linear layers are recognised by their names: those of Llama and of architectures with the same names, experts and
 *   latent attention among them. Embedding, lm_head, norms and router gates stay unquantised. So do, with a warning,
 *   layers whose inputs the group size does not divide or whose outputs are no multiple of 8. Experts of a layer in one
 *   tensor ([experts, outputs, inputs]) become one layer each, named as in checkpoints with a tensor for each expert.
 *   Memory of a rank, besides mapped files: twice the largest layer's 4-bit form. AWQ: also the model with
 *   YK_CALIBRATION_ROWS inputs of every layer in float32, and during the search those inputs in host memory and up to
 *   4096 outputs of a layer in float32. On a GPU everything except host memory is GPU memory, with the largest layer's
 *   weight. The bytes written depend neither on the device nor on the number of ranks and threads, except that AWQ
 *   depends on the kind of device: GPUs calibrate with the model's 16-bit activations, CPUs with float32.
 *   Errors: YK_E_INVAL (an option; a name to keep that no module has), YK_E_IO (files; out_dir holds other files),
 *   YK_E_FORMAT (the checkpoint; a weight that is not finite, named), YK_E_UNSUPPORTED (a checkpoint that is quantised
 *   already; AWQ of an architecture that Yoke does not run), YK_E_CANCELLED (progress returned false), YK_E_NOMEM,
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
