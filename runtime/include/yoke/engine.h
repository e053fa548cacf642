/* engine.h - a model on its ranks: options, state, counters, and a plan of the memory that the model needs. */
#ifndef YOKE_API_ENGINE_H
#define YOKE_API_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "yoke/device.h"
#include "yoke/limits.h"
#include "yoke/log.h"
#include "yoke/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Engine ------------------------------------------------------------------------------------------------------ */

typedef struct yk_engine yk_engine;

typedef enum yk_dtype_choice { YK_DTYPE_AUTO, YK_DTYPE_F16, YK_DTYPE_BF16, YK_DTYPE_F32 } yk_dtype_choice;
typedef enum yk_weights_choice { YK_WEIGHTS_AUTO, YK_WEIGHTS_F16 } yk_weights_choice;
typedef enum yk_kv_cache_choice {
  YK_KV_CACHE_AUTO,
  YK_KV_CACHE_F16,
  YK_KV_CACHE_BF16,
  YK_KV_CACHE_F32,
  YK_KV_CACHE_INT8,
  YK_KV_CACHE_FP8,
  YK_KV_CACHE_INT8_PER_TOKEN_HEAD,
  YK_KV_CACHE_FP8_PER_TOKEN_HEAD
} yk_kv_cache_choice;

typedef enum yk_activations_choice {
  YK_ACTIVATIONS_AUTO,
  YK_ACTIVATIONS_FP8,
  YK_ACTIVATIONS_DTYPE,
  YK_ACTIVATIONS_INT8
} yk_activations_choice;
enum { YK_LONG_PROMPT_PACED = -1 }; /* long_prompt_rows */
typedef enum yk_lm_head_choice { YK_LM_HEAD_AUTO, YK_LM_HEAD_INT8 } yk_lm_head_choice;

/* A low-rank adapter (LoRA) of the model, as PEFT stores it: a directory with adapter_config.json and
 * adapter_model.safetensors. name: 1 to 255 bytes, by which requests choose the adapter. */
typedef struct yk_adapter_path {
  const char *name, *path;
} yk_adapter_path;

typedef struct yk_engine_options {
  size_t struct_size;
  const char *model_dir; /* a Hugging Face checkpoint directory, or a KuiperLLama file */
  /* JSON objects, or NULL: their members replace those of config.json and of generation_config.json. Rotary settings
   * may be given under their older names (rope_scaling, rope_theta) for a file with newer names. */
  const char *hf_overrides, *override_generation_config;
  /* Directory of generation_config.json. NULL or "auto": model_dir. "vllm": model_dir, but sampling has neutral
   * defaults, and only the token ids of the file are used. Else another directory. */
  const char *generation_config;
  /* a tokenizer.json, or a directory that holds one; NULL: the model's directory, if it holds one */
  const char *tokenizer;
  yk_device_kind device; /* auto: CUDA if there is any device, else CPU */
  int n_ranks;           /* of all pipeline stages: 1 .. YK_MAX_RANKS; default 1 */
  const int *device_ids; /* [ranks of this process] CUDA ordinals, or NULL for 0 .. n_ranks - 1 */
  /* Type of the activations. auto: the checkpoint's; float16 if that is float32 and weights are quantised, or the
   * device is a GPU. */
  yk_dtype_choice dtype;
  /* auto: the checkpoint's format, if a device can multiply it. f16: quantised weights are dequantised at load, each
   * rounded once to the 16-bit type of the activations (float16 if those are float32), for comparison; plain weights
   * are as with auto. */
  yk_weights_choice weights;
  /* Type of K and V. auto: 8 bits with the checkpoint's static scales if there are any, else the type of the
   * activations; float16, bfloat16 and float32 must name that type too. int8, fp8 (e4m3): 8 bits with the checkpoint's
   * scales if those are of that type, else as the next two: a scale for each token and head. */
  yk_kv_cache_choice kv_cache_dtype;
  /* Longest prompt + output. 0: the model's own limit or the device's, and for a model with separate rotary factors for
   * long contexts, original_max_position_embeddings; lowered if KV does not fit. */
  int32_t max_model_tokens;
  /* Requests running at once; default 256. Lowered for a model with recurrent states until the states of all of them
   * take at most half of the memory besides weights and workspace, and on CPUs at most min(4 GiB, RAM/4) over all
   * ranks. */
  int32_t max_seqs;
  int32_t max_batched_tokens;    /* rows of one step; default 2048 */
  double gpu_memory_utilization; /* share of device memory for weights, workspace and KV; default 0.9 */
  /* KV bytes per rank; 0: the remainder of the share above (CPU: at most min(4 GiB, RAM/4) over all ranks). */
  int64_t kv_cache_bytes;
  int n_cpu_threads; /* threads over all ranks, on GPUs while weights are loaded; 0: every core */
  /* Mixture of experts: distribute whole experts over ranks, in ranges whose sizes differ by at most one, instead of a
   * share of each expert on every rank. No effect on other models. */
  bool expert_parallel;
  bool no_prefix_reuse; /* compute every prompt from its start */
  uint64_t seed;        /* for requests without a seed */
  /* A step that takes longer fails, and the error names the ranks that stall; 0: 60 s on CUDA, no limit on CPU. */
  double step_timeout_s;
  yk_log log;
  /* Called while weights load, one call at a time, from a thread of the engine; done == total once, at the end. May be
   * NULL. */
  void (*progress)(void *user, int64_t done_bytes, int64_t total_bytes);
  void *progress_user;
  /* Pipeline stages: each has a range of the layers, and n_ranks / n_stages consecutive ranks, which split each of its
   * layers. A divisor of n_ranks, at most the number of layers; 0 means 1. As many steps as stages are in progress at
   * once, with different sequences. */
  int n_stages;
  /* Ranks in several processes. The ranks are divided among the processes in order and evenly. Process 0 has the engine
   * (yk_engine_create); the others follow the engine (yk_engine_follow). All options of this struct must be equal in
   * all processes, except device_ids, tokenizer, n_cpu_threads, log, progress, process and local_process, and those
   * that process 0 alone uses: generation, seed, constraints and long_prompt_rows. */
  int n_processes;         /* 0 or 1: every rank is a thread of this process; else a divisor of n_ranks */
  int process;             /* number of this process, from 0 */
  int local_process;       /* number of this process among those of its host; selects the default of device_ids */
  bool starts_by_mpi;      /* MPI gives n_processes, process and local_process, and connects the processes */
  const char *master_host; /* process 0 listens there: a name, an IPv4 or IPv6 address */
  int master_port;         /* 0: 29500 */
  const char *process_key; /* a secret that all processes share, never sent; NULL or "": none */
  const char *const *process_hosts; /* [n_process_hosts] without a key: hosts that may join, besides this one */
  int n_process_hosts;
  double start_timeout_s; /* limit for all processes to join; 0: 120 s */
  /* Constraints (yoke/constraint.h). Folder of the grammar library xgrammar: libtvm_ffi.so and libxgrammar_bindings.so
   * side by side, or the target folder of pip. NULL: $YOKE_GRAMMAR_LIBRARY, else the folder yoke-grammar in this
   * installation's library folder. Loaded with the first constraint. */
  const char *grammar_library;
  const char *python;           /* the program that compiles constraints, within the next two limits; default python3 */
  double grammar_time_limit_s;  /* default 2 */
  int64_t grammar_memory_bytes; /* default 2 GiB */
  int64_t grammar_cache_bytes;  /* of compiled constraints that no request uses; default 256 MiB */
  /* Models with sparse attention are computed with dense attention, which gives the same results in contexts of up to
   * index_topk tokens. This option permits longer contexts, in which answers differ from the model's. */
  bool dense_attention_beyond_index;
  /* Memory of all ranks, GPUs' own on GPUs, for snapshots of recurrent states, from which later requests with the same
   * beginning continue; it has an effect only on models with such states. 0: none, every prompt is computed from its
   * start. Default -1: a quarter of the memory besides weights, workspace and states, and on CPU ranks also at most an
   * eighth of the host's memory and 4 GiB. */
  int64_t state_cache_bytes;
  /* Adapters (yoke/adapters.h) that may be loaded at a time: memory for all of them is allocated at the start. 0:
   * none. */
  int32_t max_adapters;
  int32_t max_adapter_rank;        /* of the adapters' matrices, 1 to 1024; default 16 */
  const yk_adapter_path *adapters; /* [n_adapters] loaded at the start, by every process */
  size_t n_adapters;               /* at most max_adapters */
  /* Type of lm_head, the layer that makes logits. auto: the checkpoint's. int8: an lm_head of floats becomes 8-bit
   * integers at load, with a float32 scale for each token of the vocabulary: the largest magnitude of its weights over
   * 127; weights are rounded to the nearest multiple of it, ties to even. An embedding that is also lm_head keeps its
   * type as embedding. Refused for an lm_head that is quantised already, and for models without one. */
  yk_lm_head_choice lm_head;
  /* Type of the inputs of layers with weights of 4-bit integers. dtype: the type of the activations. fp8: each row of
   * inputs is rounded to 8-bit floats (e4m3: 4 significant bits) with a separate scale, the largest magnitude on the
   * rank / 448; int8: to 8-bit integers, with the scale largest magnitude / 127. On GPUs, which must have compute
   * capability 9.0, inputs are rounded in steps with enough rows for a speed-up (100 to 500, depending on the layer),
   * on CPU ranks always. Prompts are computed faster; on GPUs an answer then depends, by this rounding, on how its
   * prompt is cut into steps and on the number of sequences that decode together. Layers with other weights, experts,
   * and lm_head keep dtype. Refused for models without such layers. auto: fp8 or int8 for the layers whose inputs the
   * checkpoint rounds in this way (W4AFP8 and W4A8 of compressed-tensors), dtype for the others, and for all with
   * weights f16 and on GPUs of other compute capabilities. */
  yk_activations_choice activations;
  /* Most rows of a step that a prompt gets if the step also decodes and the prompt is the only one with more than this
   * many rows to compute, so that a full step of prompt rows does not delay the tokens of other requests. 0, the
   * default: no limit. Else 32 to 1 << 20; a model with recurrent states gets at least 94. YK_LONG_PROMPT_PACED: a
   * prompt with more than 512 rows to compute gets as many rows as let a step take about twice the time of one that
   * only decodes: 64 to 512, on CPU ranks 16 to 512, from the times of earlier steps. */
  int32_t long_prompt_rows;
  /* Every all-reduce, and every gather of logits, between GPUs uses NCCL, not stores into peers' memory. No effect on
   * CPU ranks. Refused for ranks that share a GPU. */
  bool disable_custom_all_reduce;
  /* A request's logits have the same bits for any other requests that run, any division of its prompt into steps, and
   * on 1, 2, 4 or 8 ranks, as far as the model's sizes permit. Slower. Refused for mixtures of experts, latent
   * attention, recurrent states, per-layer embeddings, adapters, 8-bit caches, lm_head int8, quantised inputs and act
   * order; on several ranks for norms of whole rows of q and k, a bias of o or down, and ranks of several processes
   * whose communicator cannot add in a tree; on GPUs for weights other than 4-bit integers, which need compute
   * capability 9.0, and 16-bit floats. */
  bool batch_invariant;
} yk_engine_options;

/* yk_engine_options_init - struct_size and every default above. Must come first. */
void yk_engine_options_init_sized(yk_engine_options *options, size_t struct_size);
static inline void yk_engine_options_init(yk_engine_options *options)
{
  yk_engine_options_init_sized(options, sizeof *options);
}

/* yk_engine_create - load a model and start its ranks. Blocks until the engine can serve.
 *   Errors: YK_E_INVAL (an option; named with its legal range), YK_E_IO, YK_E_FORMAT, YK_E_UNSUPPORTED (the
 *   checkpoint), YK_E_CAPACITY (ranks, memory: with bytes needed and available), YK_E_DEVICE. If an earlier failure has
 *   left a GPU unusable in this process, the message says that a new process is needed. On failure no part of the model
 *   stays loaded. Engines that divide a model over several GPUs must not share a GPU at the same time: kernels of
 *   different ranks wait for each other, and find no room on a GPU where a kernel of the other engine waits. */
yk_status yk_engine_create(const yk_engine_options *options, yk_engine **out, yk_err *err);

/* yk_engine_call_off - for process 0, in place of yk_engine_create, which must not have been called: the other
 *   processes, which wait in yk_engine_follow, fail with the reason `why` (code other than YK_OK). Waits up to 2 s for
 *   them. options: n_processes and process must be set, even with starts_by_mpi. No effect in a run of one process. */
void yk_engine_call_off(const yk_engine_options *options, const yk_err *why);

/* yk_engine_follow - run the ranks of a process other than process 0, until the engine of process 0 is destroyed.
 *   stops: polled several times a second; returns the reason why this process must end, or NULL. Then all other
 *   processes fail and name this one with the reason. May be NULL.
 *   has_run: whether all processes had started, so that the failure is one of the run.
 *   is_stuck: set if something could not be freed, as yk_engine_destroy reports; end such a process by _exit().
 *   Errors: those of yk_engine_create; the failure that ended the engine; YK_E_COMM if a process is gone, hangs or has
 *   lost its network, naming process, host and ranks; YK_E_CANCELLED if stops has returned a reason. */
yk_status yk_engine_follow(const yk_engine_options *options, const char *(*stops)(void *user), void *user,
                           bool *has_run, bool *is_stuck, yk_err *err);

/* yk_engine_destroy - stop the ranks and free everything. Unfinished requests end with YK_FINISH_ERROR and
 *   YK_E_CANCELLED; request objects stay valid until yk_request_free. NULL is allowed.
 *   Returns true when everything has been freed. False: a rank, or the shutdown of its communicator, hangs and was
 *   abandoned with its memory after a few seconds (a minute, if nothing had failed before). The exit handlers of GPU
 *   libraries may wait for its kernel just as long, or free objects that its thread uses: end such a process by
 *   _exit(). */
bool yk_engine_destroy(yk_engine *engine);

/* yk_engine_check - YK_OK while the ranks work; else the failure that ended all requests, after which the engine
 *   accepts no more. A request that fails alone (YK_FINISH_ERROR) does not affect the engine. Thread: any. */
yk_status yk_engine_check(yk_engine *engine, yk_err *err);

typedef struct yk_rank_memory {
  int64_t weight_bytes, kv_bytes, workspace_bytes;
} yk_rank_memory;

/* Properties of the engine, fixed after creation. */
typedef struct yk_engine_info {
  size_t struct_size;
  const char *device;         /* "cpu", "cuda" */
  const char *family;         /* "qwen3", ... */
  const char *dtype;          /* "float16", ... */
  const char *kv_cache_dtype; /* dtype; "int8", "fp8" with static scales; "int8_per_token_head", "fp8_per_token_head" */
  int n_ranks;
  int32_t vocab_size, n_layers, hidden_size;
  int32_t max_model_tokens, max_seqs, max_batched_tokens;
  int32_t default_max_tokens; /* max_new_tokens of the model's generation_config.json; 0: it has none */
  const int32_t *eos_ids;     /* [n_eos_ids] the model's end-of-sequence ids; the engine owns the array */
  size_t n_eos_ids;
  int64_t kv_capacity_tokens; /* capacity of the smallest rank */
  int32_t kv_block_tokens;    /* of a block, the unit in which KV memory is allocated */
  bool has_tokenizer;
  double load_s;            /* duration of yk_engine_create */
  double weights_s;         /* part of load_s, from the first byte of the weights read to the last layer prepared */
  int64_t checkpoint_bytes; /* all weights in the checkpoint's files */
  yk_rank_memory memory[YK_MAX_RANKS];
  int n_stages;                            /* rank r is in pipeline stage r / (n_ranks / n_stages) */
  int n_processes;                         /* among which the ranks are divided */
  const char *rank_hosts[YK_MAX_RANKS];    /* [n_ranks] the host of each rank; NULL if there is one process */
  int64_t state_bytes[YK_MAX_RANKS];       /* in addition to memory: recurrent states of max_seqs sequences; 0: none */
  int64_t state_cache_bytes[YK_MAX_RANKS]; /* in addition to memory: all snapshots of recurrent states */
  int32_t embedding_size;                  /* numbers in an embedding; 0: the model makes no embeddings */
  bool only_embeds;        /* the model has no lm_head: requests must embed, and held sequences have no logits */
  int32_t max_adapters;    /* as in the options */
  const char *lm_head;     /* "auto", "int8": as in the options */
  const char *activations; /* "fp8", "int8": inputs of at least one layer may be rounded; otherwise "dtype" */
} yk_engine_info;

void yk_engine_get_info_sized(const yk_engine *engine, yk_engine_info *out, size_t struct_size);
static inline void yk_engine_get_info(const yk_engine *engine, yk_engine_info *out)
{
  yk_engine_get_info_sized(engine, out, sizeof *out);
}

/* yk_engine_reset_prefixes - drop the computed prefixes: requests that start to run from now on reuse none of them;
 *   running requests keep theirs. Waits for the end of the current step.
 *   Errors: the engine's failure, or YK_E_CANCELLED if it stops. Thread: any. */
yk_status yk_engine_reset_prefixes(yk_engine *engine, yk_err *err);

enum { YK_STEP_SIZES = 16 };

/* Counters since creation, and the present state, as a consistent snapshot. */
typedef struct yk_engine_stats {
  size_t struct_size;
  uint64_t steps, prompt_tokens, output_tokens; /* computed prompt tokens, sampled tokens */
  uint64_t requests_finished, requests_failed, preemptions;
  /* Tokens that sequences held on admission, and those of them already computed for an earlier sequence with the same
   * beginning. */
  uint64_t prefix_tokens, prefix_reused_tokens;
  /* The engine thread's own work: between steps (take results, plan), and while the ranks compute the next step (hand
   * tokens to readers). */
  double scheduling_s, hand_out_s;
  double prefill_s, decode_s;                       /* time in steps with prompt tokens, and in steps without */
  uint64_t prefill_step_tokens, decode_step_tokens; /* rows computed in either kind of step */
  /* Steps of 1 row, 2, 3 to 4, 5 to 8, ...: [i] of at most 2^i rows, the last of any more. */
  uint64_t steps_by_rows[YK_STEP_SIZES];
  int32_t waiting, running;
  int64_t kv_blocks_total, kv_blocks_free;
  /* Prompt tokens not yet computed: all tokens of waiting requests, although a prefix may already be computed, and the
   * remaining tokens of running requests' prompts. */
  int64_t waiting_tokens;
  /* Snapshots of recurrent states: total entries and used entries; snapshots saved, and snapshots lost because a later
   * snapshot replaced them or KV blocks of the same tokens were freed. */
  int64_t states_total, states_used;
  uint64_t states_saved, states_evicted;
  /* Sequences that began at a snapshot, and sequences that began without one although computed KV of their beginning
   * was held. */
  uint64_t state_hits, state_misses;
  /* Masks of constrained outputs, the steps that had any, and the time from the start of these steps until their masks
   * were filled: a step waits for masks that are not filled when the ranks have computed its logits. */
  uint64_t masks, masked_steps;
  double mask_s;
} yk_engine_stats;

void yk_engine_get_stats_sized(yk_engine *engine, yk_engine_stats *out, size_t struct_size);
static inline void yk_engine_get_stats(yk_engine *engine, yk_engine_stats *out)
{
  yk_engine_get_stats_sized(engine, out, sizeof *out);
}

/* Distribution of rows over experts in a mixture of experts. */
typedef struct yk_expert_load {
  size_t struct_size;
  int32_t n_layers;  /* layers of the model that have experts; 0: none, and all other fields are 0 */
  int32_t n_experts; /* in each of these layers */
  int32_t top_k;     /* experts that a row chooses */
  int32_t *layers;   /* [n_layers] their numbers in the model */
  int64_t *rows;     /* [n_layers, n_experts] number of rows that chose each expert */
  int n_ranks;       /* ranks that split each layer: those of a pipeline stage, added up over stages */
  bool holds_whole;  /* rank r holds experts first[r] .. first[r + 1] - 1; else the part parts[r] of every expert */
  int32_t first[YK_MAX_RANKS + 1];
  double parts[YK_MAX_RANKS];
  double rank_shares[YK_MAX_RANKS]; /* a rank's share of all choices; 0 before the first row */
  /* Largest share of a layer's choices on one rank, averaged over layers: 1 / n_ranks if all ranks have the same load;
   * 0 before the first row. */
  double busiest_share;
} yk_expert_load;

/* yk_engine_get_expert_load - the load since the engine was created; free *out with yk_expert_load_free. waits: block
 *   until the end of the current step, which is then counted; else the counts are up to a second old while requests
 *   run.
 *   Errors: YK_E_NOMEM; with waits the engine's failure, or YK_E_CANCELLED if it stops. *out is then 0. */
yk_status yk_engine_get_expert_load_sized(yk_engine *engine, bool waits, yk_expert_load *out, size_t struct_size,
                                          yk_err *err);
static inline yk_status yk_engine_get_expert_load(yk_engine *engine, bool waits, yk_expert_load *out, yk_err *err)
{
  return yk_engine_get_expert_load_sized(engine, waits, out, sizeof *out, err);
}
void yk_expert_load_free(yk_expert_load *load);

/* yk_expert_load_subtract - turn a load of an engine into the load since an earlier one of the same engine. */
void yk_expert_load_subtract(yk_expert_load *load, const yk_expert_load *before);

/* ---- Plan -------------------------------------------------------------------------------------------------------- */

/* Memory that a model needs on n ranks. Computed from configuration and headers, without reading the weights. */
typedef struct yk_plan {
  size_t struct_size;
  yk_device_kind device; /* CPU or CUDA */
  int n_ranks;
  bool fits;
  bool assumes_formats; /* the directory holds no weights: their formats and types are derived from config.json */
  /* why the model does not fit, or a remark ("ranks 6, 7 hold no attention head") */
  char reason[YK_ERR_MESSAGE_BYTES];
  yk_rank_memory memory[YK_MAX_RANKS]; /* kv_bytes: for kv_tokens */
  const char *kv_cache_dtype;          /* as in yk_engine_info */
  int64_t kv_bytes_per_token[YK_MAX_RANKS];
  int64_t kv_tokens;    /* KV tokens that the smallest rank can hold besides weights and workspace */
  int32_t n_experts;    /* experts of a layer; 0: the model has none, and the fields to active_bytes are 0 */
  bool expert_parallel; /* ranks hold whole experts, else a share of each */
  int32_t rank_experts[YK_MAX_RANKS];      /* number of the n_experts that the rank holds wholly or in part */
  int64_t expert_bytes[YK_MAX_RANKS];      /* part of weight_bytes: the routed experts */
  int64_t active_bytes[YK_MAX_RANKS];      /* part of weight_bytes that one token uses, on average over its choices */
  int n_stages;                            /* as in yk_engine_info */
  int32_t max_seqs;                        /* requests running at once: fewer than the option's if states do not fit */
  int64_t state_bytes[YK_MAX_RANKS];       /* as in yk_engine_info */
  int64_t state_cache_bytes[YK_MAX_RANKS]; /* as in yk_engine_info */
} yk_plan;

/* yk_plan_make - options as for yk_engine_create; model_dir needs no more than config.json.
 *   device_memory_bytes: memory of each device of the planned machine; needs no GPU in this machine and no CUDA in the
 *   build, and device auto means GPUs. 0: this machine's memory (CPU: all ranks share the host's RAM).
 *   Errors: those of the options, an amount of memory out of range among them, and of reading the checkpoint. A model
 *   that does not fit is a result, not an error. */
yk_status yk_plan_make_sized(const yk_engine_options *options, int64_t device_memory_bytes, yk_plan *out,
                             size_t struct_size, yk_err *err);
static inline yk_status yk_plan_make(const yk_engine_options *options, int64_t device_memory_bytes, yk_plan *out,
                                     yk_err *err)
{
  return yk_plan_make_sized(options, device_memory_bytes, out, sizeof *out, err);
}

#ifdef __cplusplus
}
#endif
#endif
