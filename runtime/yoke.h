/* yoke.h - run quantised language models split over several devices. The one public header.
 *
 * An engine holds one model on N ranks (one worker thread and one device each) and keeps many requests busy at once.
 * Any thread may call any function here on any object, except that a request or an engine must not be used during or
 * after the call that frees it. Functions that fail return a yk_status and fill the caller's yk_err (which may be
 * NULL); what they were to create is then NULL. Every number, enum and length is checked before memory that it
 * describes is read, and an array may be NULL only where its length is 0: YK_E_INVAL names the argument and its legal
 * range.
 *
 *   yk_engine_options options;
 *   yk_engine_options_init(&options);
 *   options.model_dir = "Qwen3-8B-AWQ";
 *   options.n_ranks = 2;
 *   yk_engine *engine;
 *   if (yk_engine_create(&options, &engine, &err) != YK_OK) ...
 *   yk_request_options request_options;
 *   yk_request_options_init(engine, &request_options);
 *   request_options.text = "Once upon a time";
 *   yk_request *request;
 *   if (yk_engine_submit(engine, &request_options, &request, &err) != YK_OK) ...
 *   yk_output output;
 *   while (yk_request_next(request, -1, &output, &err) == YK_OK && output.finish == YK_FINISH_NONE)
 *     fwrite(output.text, 1, output.text_bytes, stdout);
 *   yk_request_free(request);
 *   yk_engine_destroy(engine);
 */
#ifndef YOKE_H
#define YOKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "base/logit_bias.h"
#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Engine ------------------------------------------------------------------------------------------------------ */

typedef struct yk_engine yk_engine;

typedef enum yk_device_kind { YK_DEVICE_AUTO, YK_DEVICE_CPU, YK_DEVICE_CUDA } yk_device_kind;
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

enum { YOKE_MAX_RANKS = 8 };

typedef struct yk_engine_options {
  const char *model_dir; /* a Hugging Face checkpoint directory, or a KuiperLLama file */
  const char *tokenizer; /* a tokenizer.json, or a directory that holds one; NULL: the model's directory, if it does */
  yk_device_kind device; /* auto: CUDA where there is any device, else CPU */
  int n_ranks;           /* 1 .. YOKE_MAX_RANKS; default 1 */
  const int *device_ids; /* [n_ranks] CUDA ordinals, or NULL for 0 .. n_ranks - 1 */
  yk_dtype_choice dtype; /* activations; auto: the checkpoint's (float16 for AWQ with float32) */
  /* auto: as the checkpoint has them, where a device can multiply that. f16: quantised weights are dequantised at load,
   * each rounded once to the 16-bit type of the activations (float16 where those are float32), for comparison; plain
   * weights are as with auto. */
  yk_weights_choice weights;
  /* What K and V are kept in. auto: 8 bits with the checkpoint's static scales where it has them, else the type of the
   * activations, which float16, bfloat16 and float32 must name too. int8, fp8 (e4m3): 8 bits with the checkpoint's
   * scales where they are of that type, else as the next two: a scale for each token and head. */
  yk_kv_cache_choice kv_cache_dtype;
  int32_t max_model_tokens;      /* longest prompt + output; 0: the model's own limit, lowered where KV does not fit */
  int32_t max_seqs;              /* requests running at once; default 256 */
  int32_t max_batched_tokens;    /* rows of one step; default 2048 */
  double gpu_memory_utilization; /* share of device memory for weights, workspace and KV; default 0.9 */
  /* KV bytes per rank; 0: what the share above leaves (CPU: at most min(4 GiB, RAM/4) over all ranks). */
  int64_t kv_cache_bytes;
  int n_cpu_threads; /* threads over all ranks, on GPUs while weights are loaded; 0: every core */
  /* Of a mixture of experts: deal whole experts to ranks, in ranges that differ by one at most, instead of giving every
   * rank a share of each. Other models do not change. */
  bool expert_parallel;
  bool no_prefix_reuse; /* compute every prompt from its start */
  uint64_t seed;        /* for requests that bring none */
  /* A step that takes longer fails, naming the ranks that stall; 0: 60 s on CUDA, no limit on CPU. */
  double step_timeout_s;
  yk_log log;
  /* Called while weights load, one call at a time, from a thread of the engine; done == total once, at the end. May be
   * NULL.                                                                                                            */
  void (*progress)(void *user, int64_t done_bytes, int64_t total_bytes);
  void *progress_user;
} yk_engine_options;

/* yk_engine_options_init - every default above. Call it first, so that new fields keep working. */
void yk_engine_options_init(yk_engine_options *options);

/* yk_engine_create - load a model and start its ranks. Blocks until it can serve.
 *   Errors: YK_E_INVAL (an option; named with its legal range), YK_E_IO, YK_E_FORMAT, YK_E_UNSUPPORTED (the
 *   checkpoint), YK_E_CAPACITY (ranks, memory: with bytes needed and available), YK_E_DEVICE; where an earlier failure
 *   has left a GPU of no more use to this process the message says that a new process is needed. Nothing stays
 *   half-loaded. */
yk_status yk_engine_create(const yk_engine_options *options, yk_engine **out, yk_err *err);

/* yk_engine_destroy - stop the ranks and free everything. Unfinished requests end with YK_FINISH_ERROR and
 *   YK_E_CANCELLED; request objects stay valid until yk_request_free. NULL is allowed.
 *   Returns true when everything has been freed. False: a rank hangs; after a few seconds it was left alone with its
 *   memory. If it hangs on a GPU, exit() may wait for its kernel as long, in the exit handlers of GPU libraries: end
 *   such a process by _exit(). */
bool yk_engine_destroy(yk_engine *engine);

/* yk_engine_check - YK_OK while the ranks work; else the failure that ended all requests, after which the engine takes
 *   no more. A request that fails alone (YK_FINISH_ERROR) leaves the engine as it was. Thread: any. */
yk_status yk_engine_check(yk_engine *engine, yk_err *err);

typedef struct yk_rank_memory {
  int64_t weight_bytes, kv_bytes, workspace_bytes;
} yk_rank_memory;

/* What the engine settled on, fixed after creation. */
typedef struct yk_engine_info {
  const char *device;         /* "cpu", "cuda" */
  const char *family;         /* "qwen3", ... */
  const char *dtype;          /* "float16", ... */
  const char *kv_cache_dtype; /* dtype; "int8", "fp8" with static scales; "int8_per_token_head", "fp8_per_token_head" */
  int n_ranks;
  int32_t vocab_size, n_layers, hidden_size;
  int32_t max_model_tokens, max_seqs, max_batched_tokens;
  int32_t default_max_tokens; /* max_new_tokens of the model's generation_config.json; 0: it has none */
  const int32_t *eos_ids;     /* [n_eos_ids] the model's end-of-sequence ids; the engine's, valid while it lives */
  size_t n_eos_ids;
  int64_t kv_capacity_tokens; /* what the smallest rank can hold */
  bool has_tokenizer;
  double load_s;            /* all of yk_engine_create */
  double weights_s;         /* of it, from the first byte of the weights read to the last layer prepared */
  int64_t checkpoint_bytes; /* of all weights in the checkpoint's files */
  yk_rank_memory memory[YOKE_MAX_RANKS];
} yk_engine_info;

void yk_engine_get_info(const yk_engine *engine, yk_engine_info *out);

enum { YOKE_STEP_SIZES = 16 };

/* Counters since creation, and the present state. A consistent snapshot. */
typedef struct yk_engine_stats {
  uint64_t steps, prompt_tokens, output_tokens; /* computed prompt tokens, sampled tokens */
  uint64_t requests_finished, requests_failed, preemptions;
  /* Tokens that sequences held on being admitted, and those of them found computed because an earlier one began
   * alike. */
  uint64_t prefix_tokens, prefix_reused_tokens;
  /* The engine thread's own work: between steps, taking results and planning; and while the ranks compute the next
   * step, giving tokens to readers. */
  double scheduling_s, hand_out_s;
  double prefill_s, decode_s; /* time in steps that carried prompt tokens, and in steps that did not */
  uint64_t prefill_step_tokens, decode_step_tokens; /* rows computed in either kind of step */
  /* Steps of 1 row, 2, 3 to 4, 5 to 8, ...: [i] of at most 2^i rows, the last of any more. */
  uint64_t steps_by_rows[YOKE_STEP_SIZES];
  int32_t waiting, running;
  int64_t kv_blocks_total, kv_blocks_free;
} yk_engine_stats;

void yk_engine_get_stats(yk_engine *engine, yk_engine_stats *out);

/* How the rows of a mixture of experts were spread. */
typedef struct yk_expert_load {
  int32_t n_layers;  /* of the model that have experts; 0: none has, and everything else is 0 */
  int32_t n_experts; /* of each of them */
  int32_t top_k;     /* experts that a row chooses */
  int32_t *layers;   /* [n_layers] their numbers in the model */
  int64_t *rows;     /* [n_layers, n_experts] rows that chose each expert */
  int n_ranks;
  bool holds_whole; /* rank r holds experts first[r] .. first[r + 1] - 1; else the part parts[r] of every expert */
  int32_t first[YOKE_MAX_RANKS + 1];
  double parts[YOKE_MAX_RANKS];
  double rank_shares[YOKE_MAX_RANKS]; /* of all choices, what falls to a rank; 0 before the first row, as the next */
  double busiest_share; /* of a layer's choices, the most that falls to one rank, on average; 1 / n_ranks: even */
} yk_expert_load;

/* yk_engine_get_expert_load - since the engine was created; free *out with yk_expert_load_free. waits: up to the end of
 *   the step under way, which is then counted; else the counts are up to a second old while requests run.
 *   Errors: YK_E_NOMEM; with waits the engine's failure, or YK_E_CANCELLED where it stops. *out is then 0. */
yk_status yk_engine_get_expert_load(yk_engine *engine, bool waits, yk_expert_load *out, yk_err *err);
void yk_expert_load_free(yk_expert_load *load);

/* yk_expert_load_subtract - load of an engine becomes that since an earlier one of the same engine. */
void yk_expert_load_subtract(yk_expert_load *load, const yk_expert_load *before);

/* ---- Where the time goes ----------------------------------------------------------------------------------------- */

/* Where the time of a step goes on a rank; the parts of a rank add up to the step. */
typedef enum yk_time_part {
  YK_TIME_GEMM_QKV,
  YK_TIME_GEMM_O,
  YK_TIME_GEMM_GATE_UP,
  YK_TIME_GEMM_DOWN,
  YK_TIME_LM_HEAD,
  YK_TIME_ATTENTION,
  YK_TIME_OTHER_KERNELS, /* embedding, norms, rotary embedding and KV write, row selection, upload */
  YK_TIME_ALL_REDUCE_TRANSFER,
  YK_TIME_ALL_REDUCE_WAIT, /* for the slowest rank */
  YK_TIME_LOGITS_GATHER,
  YK_TIME_SAMPLING,   /* on ranks other than 0: waiting for it */
  YK_TIME_LAUNCH_GAP, /* of the forward, before the device began and after it ended */
  YK_TIME_HOST,       /* outside the forward: planning, handing out, waking the ranks */
  YK_TIME_PARTS
} yk_time_part;

/* yk_time_part_name - "gemm_qkv", "gemm_o", "gemm_gate_up", "gemm_down", "lm_head", "attention", "other_kernels",
 *   "all_reduce_transfer", "all_reduce_wait", "logits_gather", "sampling", "launch_gap", "host". */
const char *yk_time_part_name(yk_time_part part);

/* Sums over the steps that were timed. */
typedef struct yk_step_times {
  uint64_t n_steps;
  double step_s; /* from the start of a step to the start of the next, or its end */
  double part_s[YOKE_MAX_RANKS][YK_TIME_PARTS];
  uint64_t n_all_reduces;
  uint64_t slowest[YOKE_MAX_RANKS]; /* how often each rank was the last to come to an all-reduce */
  double timestamp_cost_s;          /* taken off step_s, and off the parts: what the timestamps themselves cost */
} yk_step_times;

typedef struct yk_profile {
  int n_ranks;
  double clock_resolution_s;     /* of the devices' clocks; 0 before the first timed step */
  yk_step_times prefill, decode; /* steps with prompt rows; steps without */
} yk_profile;

/* yk_engine_set_profile - time every n-th step; 1 leaves one in 16 plain, 0 times none. Sums begin again at zero.
 *   A timed step takes a timestamp before each operation of each rank; other steps run as if there were no profile. On
 *   a GPU a timestamp is a kernel of its own that takes half a microsecond, so a timed decode step takes 3 to 8 %
 *   longer. That is measured and taken off the parts: from decode steps of as many rows, one timed and one plain, that
 *   follow each other; from a chain of timestamps until there are some. Steps that record a graph are not counted: on
 *   a GPU the first timed decode of each size.
 *   Errors: YK_E_INVAL (a negative number). Thread: any, while requests run too. */
yk_status yk_engine_set_profile(yk_engine *engine, int32_t every, yk_err *err);

/* yk_engine_get_profile - the sums up to now. A step is counted when the next one begins or no work is left. */
void yk_engine_get_profile(yk_engine *engine, yk_profile *out);

/* Some steps as slices of time, operation by operation, in a file for Perfetto (ui.perfetto.dev) or
 * chrome://tracing. */
typedef struct yk_trace yk_trace;

enum { YOKE_TRACE_STEPS = 64 }; /* a good number: some megabytes */

/* yk_trace_create - open the file at path, which is written once max_steps steps are in it, or by yk_trace_finish.
 *   Errors: YK_E_INVAL, YK_E_IO (the file), YK_E_NOMEM. */
yk_status yk_trace_create(const char *path, int32_t max_steps, yk_trace **out, yk_err *err);

/* yk_engine_set_trace - time the engine's next steps, whatever its profile says, and put them into the trace until that
 *   is full; NULL: no more of them. A trace is one engine's at a time. It must outlive the engine, or be taken away. */
void yk_engine_set_trace(yk_engine *engine, yk_trace *trace);

/* yk_trace_finish - write what has not been written, and free the trace; no engine may have it. NULL is allowed.
 *   Errors: YK_E_IO, also of what was written before; YK_E_NOMEM where slices were lost. */
yk_status yk_trace_finish(yk_trace *trace, yk_err *err);

/* ---- Text -------------------------------------------------------------------------------------------------------- */

/* yk_engine_tokenize - ids of a text; *ids is malloc'd and the caller's. add_special_tokens adds what the model wants
 *   around every text (a beginning-of-sequence token); the text of a chat template brings its own.
 *   Errors: YK_E_UNSUPPORTED where the checkpoint has no tokenizer that can be read (with the cause), YK_E_INVAL for
 *   text that is not UTF-8 or 2 GiB long or longer, YK_E_NOMEM. *ids is then NULL.                                   */
yk_status yk_engine_tokenize(const yk_engine *engine, const char *text, size_t n_bytes, bool add_special_tokens,
                             int32_t **ids, size_t *n_ids, yk_err *err);

/* yk_engine_detokenize - the text of n_ids token ids, always well-formed UTF-8: bytes that spell no character become
 *   U+FFFD. *text is malloc'd, the caller's, and NUL-terminated behind its *n_bytes bytes (it may hold NUL characters).
 *   skip_special_tokens leaves special tokens ("<s>") out. Ids of the model's vocabulary that the tokenizer does not
 *   know have no text.
 *   Errors: YK_E_UNSUPPORTED where the checkpoint has no tokenizer, YK_E_INVAL for an id outside the vocabulary,
 *   YK_E_FORMAT for a tokenizer that makes texts grow without end, YK_E_NOMEM. *text is then NULL.                   */
yk_status yk_engine_detokenize(const yk_engine *engine, const int32_t *ids, size_t n_ids, bool skip_special_tokens,
                               char **text, size_t *n_bytes, yk_err *err);

/* Text from token ids that come a few at a time. What push and finish give is together the text that
 * yk_engine_detokenize gives for all the ids. One thread at a time uses a stream; different streams any. */
typedef struct yk_text_stream yk_text_stream;

/* yk_text_stream_create - an empty stream. Where ids continue a prompt, push the prompt's first and drop their text:
 *   some models spell the first token of a text differently.
 *   Errors: YK_E_UNSUPPORTED where the checkpoint has no tokenizer, YK_E_NOMEM.                                      */
yk_status yk_text_stream_create(const yk_engine *engine, bool skip_special_tokens, yk_text_stream **out, yk_err *err);

/* yk_text_stream_push - add n_ids ids. *text: what has become final, whole UTF-8 characters, maybe none; the stream's
 *   own, valid until its next call. A character whose bytes are not all there is held back; with byte fallback a whole
 *   run of byte tokens is, since one bad byte spoils all of it.
 *   Errors: YK_E_INVAL for an id outside the vocabulary: none of the ids has been added. YK_E_NOMEM, or YK_E_FORMAT for
 *   a tokenizer that makes texts grow without end: text is lost, and only free is of use. */
yk_status yk_text_stream_push(yk_text_stream *stream, const int32_t *ids, size_t n_ids, const char **text,
                              size_t *n_bytes, yk_err *err);

/* yk_text_stream_finish - no more ids: the text that was held back. The next push begins another text. Errors:
 *   YK_E_NOMEM. */
yk_status yk_text_stream_finish(yk_text_stream *stream, const char **text, size_t *n_bytes, yk_err *err);

/* yk_text_stream_free - NULL is allowed. Must come before the engine is destroyed. */
void yk_text_stream_free(yk_text_stream *stream);

/* ---- Requests ---------------------------------------------------------------------------------------------------- */

typedef struct yk_request yk_request;

enum { YOKE_MAX_LOGPROBS = 20 };

typedef struct yk_sampling {
  float temperature;                         /* 0 .. 100; below 1e-5 is greedy */
  float top_p;                               /* more than 0, at most 1 */
  float min_p;                               /* 0 .. 1 */
  int32_t top_k;                             /* 0 or -1: all; else 1 .. vocabulary */
  float repetition_penalty;                  /* more than 0, at most 10; of ids in prompt or output; 1: off */
  float frequency_penalty, presence_penalty; /* -2 .. 2; of ids in the output; 0: off */
  const yk_logit_bias *biases;               /* [n_biases] logit_bias; copied by submit */
  size_t n_biases;
  uint64_t seed;
  bool has_seed; /* false: drawn from the engine's seed and the request's number */
  /* >= 0. n samples of one prompt are n requests that differ in this: the prompt is computed once. */
  int32_t sample_index;
  /* 1 .. what the context leaves beside the prompt; -1: all of that; 0: with prompt_logprobs only. */
  int32_t max_tokens;
  int32_t min_tokens;      /* end-of-sequence and stop ids are banned, stop strings ignored, before; 0 .. max_tokens */
  bool ignore_eos;         /* go on after the model's end-of-sequence ids */
  const int32_t *stop_ids; /* [n_stop_ids] further ids that end the output; copied by submit */
  size_t n_stop_ids;
  const char *const *stop_strings; /* [n_stop_strings] non-empty UTF-8 that ends the output and is cut off it; copied */
  size_t n_stop_strings;
  int32_t n_logprobs; /* -1: none; 0: of the chosen token; else also of this many best, at most YOKE_MAX_LOGPROBS */
  int32_t n_prompt_logprobs; /* the same of every prompt token but the first; they are delivered before the output */
} yk_sampling;

typedef struct yk_request_options {
  const char *text;        /* UTF-8; or NULL */
  size_t text_bytes;       /* 0: strlen(text) */
  bool add_special_tokens; /* to the text, as for yk_engine_tokenize; default true */
  const int32_t *ids;      /* [n_ids], where text is NULL; copied by submit */
  size_t n_ids;
  yk_sampling sampling;
  /* For who reads many requests without waiting for each: called when yk_request_next, having had nothing to give,
   * has something, and at the end. Read until YK_E_TIMEOUT or the end then, since what comes behind something unread is
   * not told; who reads fast may be told of what he has read already. The last token is told by the end, which comes
   * with it. Called from a thread of the engine that holds the request's lock: maybe before submit returns, never for a
   * request that submit refuses, never after yk_request_free has returned. Must not block nor call a function of Yoke.
   * May be NULL.                                                                                                     */
  void (*notify)(void *user);
  void *notify_user;
} yk_request_options;

/* yk_request_options_init - no prompt, special tokens added to a text, no notify, sampling defaults from the model's
 *   generation_config.json, else temperature 1. */
void yk_request_options_init(const yk_engine *engine, yk_request_options *options);

typedef enum yk_finish_reason {
  YK_FINISH_NONE,   /* more to come */
  YK_FINISH_STOP,   /* an end-of-sequence or stop id, or a stop string */
  YK_FINISH_LENGTH, /* max_tokens or the context is used up */
  YK_FINISH_CANCELLED,
  YK_FINISH_ERROR /* yk_request_next says why: the engine's failure, or this request's own, which harms no other:
                   * YK_E_DEVICE, naming the position, where the model gave it logits that are not finite;
                   * YK_E_INVAL where min_tokens bans every token; YK_E_NOMEM where its output was lost            */
} yk_finish_reason;

/* yk_finish_reason_name - "stop", "length", "cancelled", "error"; "" for YK_FINISH_NONE, "unknown" for any other
 *   value. */
const char *yk_finish_reason_name(yk_finish_reason reason);

/* One token, or the end. The end comes once, after the last token, with has_token false; text may then hold what was
 * held back: half a character, or the beginning of a stop string that did not come. */
typedef struct yk_output {
  bool has_token;
  bool is_prompt; /* a prompt token with its log-probability; it has no text */
  int32_t token_id;
  float logprob; /* of the raw logits, where asked for */
  int32_t n_top;
  int32_t top_ids[YOKE_MAX_LOGPROBS];
  float top_logprobs[YOKE_MAX_LOGPROBS];
  const char *text; /* whole UTF-8 characters, maybe empty; valid until the next call on this request */
  size_t text_bytes;
  int64_t time_ns; /* of a token: when the engine put it here to be read, in nanoseconds of CLOCK_MONOTONIC */
  yk_finish_reason finish;
} yk_output;

typedef struct yk_request_usage {
  int32_t prompt_tokens, output_tokens;
  int32_t reused_tokens; /* of the prompt, found already computed */
  double queue_s;        /* submit to first scheduled */
  double ttft_s;         /* submit to first token */
  double decode_s;       /* first token to the end */
} yk_request_usage;

/* yk_engine_submit - queue a request. Returns at once; a refused request leaves nothing behind.
 *   Errors: YK_E_INVAL naming the parameter and its legal range, YK_E_CAPACITY for a prompt longer than the context,
 *   YK_E_UNSUPPORTED for text without a tokenizer, YK_E_FORMAT for a tokenizer that makes texts grow without end,
 *   YK_E_NOMEM, YK_E_CANCELLED once the engine stops, or the engine's own error after a rank failed. */
yk_status yk_engine_submit(yk_engine *engine, const yk_request_options *options, yk_request **out, yk_err *err);

/* yk_request_next - the next token or the end, in order.
 *   timeout_s: negative waits for ever, 0 only looks. YK_E_TIMEOUT: nothing yet, call again. YK_E_INVAL: timeout_s is
 *   not a number. YK_E_NOMEM: this token's text is lost; the rest can still be read.
 *   When output.finish is YK_FINISH_ERROR, err tells why (the return value is still YK_OK). One reader at a time.    */
yk_status yk_request_next(yk_request *request, double timeout_s, yk_output *output, yk_err *err);

/* yk_request_cancel - ask the engine to drop it; the end follows with YK_FINISH_CANCELLED unless it was already
 *   done. */
void yk_request_cancel(yk_request *request);

/* yk_request_get_usage - counts and times so far. */
void yk_request_get_usage(yk_request *request, yk_request_usage *out);

/* yk_request_free - cancels it where unfinished. NULL is allowed. May be called after the engine is destroyed. */
void yk_request_free(yk_request *request);

/* ---- Sequences --------------------------------------------------------------------------------------------------- */

/* Tokens that a caller holds on to, for speculative decoding, search, scoring: append ids and get logits, go back,
 * branch. Their KV blocks come from the same pool as requests'; where the pool runs short they are computed again on
 * the next append. A sequence is used by one thread at a time; different sequences by any. */
typedef struct yk_held_sequence yk_held_sequence;

typedef enum yk_logits_of {
  YK_LOGITS_NONE,
  YK_LOGITS_LAST, /* [vocab_size] of the last appended position */
  YK_LOGITS_ALL   /* [n_ids, vocab_size] of every appended position */
} yk_logits_of;

/* yk_held_sequence_create - an empty sequence. Errors: YK_E_NOMEM. */
yk_status yk_held_sequence_create(yk_engine *engine, yk_held_sequence **out, yk_err *err);

/* yk_held_sequence_append - compute n_ids more tokens; blocks until done, batched with everything else that runs.
 *   logits: float32 host memory as yk_logits_of says; raw, before any sampling parameter. May be NULL with NONE.
 *   Errors: YK_E_INVAL (an id outside the vocabulary, no ids, no such `which`), YK_E_CAPACITY (longer than
 *   max_model_tokens), YK_E_DEVICE naming the position where the logits asked for are not finite; after each of these
 *   the sequence is as before, and what was written to logits is not defined. Or the engine's own error, after which
 *   only free is of use. */
yk_status yk_held_sequence_append(yk_held_sequence *sequence, const int32_t *ids, size_t n_ids, yk_logits_of which,
                                  float *logits, yk_err *err);

/* yk_held_sequence_truncate - keep the first n_tokens. Errors: YK_E_INVAL beyond the present length. */
yk_status yk_held_sequence_truncate(yk_held_sequence *sequence, size_t n_tokens, yk_err *err);

/* yk_held_sequence_fork - another sequence with the same tokens; full blocks are shared. Errors: YK_E_NOMEM. */
yk_status yk_held_sequence_fork(yk_held_sequence *sequence, yk_held_sequence **out, yk_err *err);

size_t yk_held_sequence_length(const yk_held_sequence *sequence);

/* yk_held_sequence_free - NULL is allowed. Must come before the engine is destroyed. */
void yk_held_sequence_free(yk_held_sequence *sequence);

/* ---- Plan -------------------------------------------------------------------------------------------------------- */

/* What a model would take on n ranks. Reads configuration and headers, never the weights. */
typedef struct yk_plan {
  yk_device_kind device; /* CPU or CUDA */
  int n_ranks;
  bool fits;
  bool assumes_formats; /* the directory holds no weights: their formats and types are what config.json says */
  char reason[YK_ERR_MESSAGE_BYTES];     /* why not, or a remark ("ranks 6, 7 hold no attention head") */
  yk_rank_memory memory[YOKE_MAX_RANKS]; /* kv_bytes: of kv_tokens */
  const char *kv_cache_dtype;            /* as in yk_engine_info */
  int64_t kv_bytes_per_token[YOKE_MAX_RANKS];
  int64_t kv_tokens;                    /* of KV that the smallest rank can hold beside weights and workspace */
  int32_t n_experts;                    /* of each layer that has some; 0: the model has none, and what follows is 0 */
  bool expert_parallel;                 /* ranks hold whole experts, else a share of each */
  int32_t rank_experts[YOKE_MAX_RANKS]; /* of n_experts, that the rank holds wholly or in part */
  int64_t expert_bytes[YOKE_MAX_RANKS]; /* of weight_bytes: the experts that rows choose among */
  int64_t active_bytes[YOKE_MAX_RANKS]; /* of weight_bytes that one token uses, on average over its choices */
} yk_plan;

/* yk_plan_make - options as for yk_engine_create; config.json is enough of a model_dir.
 *   device_memory_bytes: per device of the machine that the plan is for; it needs no GPU here nor CUDA in the build,
 *   and device auto means GPUs. 0: this machine's (CPU: the host's RAM is shared by all ranks).
 *   Errors: those of the options, an amount of memory out of range among them, and of reading the checkpoint; not
 *   fitting is an answer, not an error. */
yk_status yk_plan_make(const yk_engine_options *options, int64_t device_memory_bytes, yk_plan *out, yk_err *err);

/* ---- Devices ----------------------------------------------------------------------------------------------------- */

typedef struct yk_device_info {
  yk_device_kind kind;
  int id;         /* CUDA ordinal, as yk_engine_options.device_ids takes it; 0 for the CPU */
  char name[128]; /* "NVIDIA H200"; "CPU, 2 cores" */
  int64_t free_bytes, total_bytes;
} yk_device_info;

/* yk_device_list - what ranks can run on: the CPU, which any number of ranks may share, then every GPU.
 *   out [max]: the first max of them, maybe NULL with 0. n: how many there are. Errors: YK_E_INVAL (a negative max),
 *   YK_E_DEVICE.                                                                                                     */
yk_status yk_device_list(yk_device_info *out, int max, int *n, yk_err *err);

/* ---- Links ------------------------------------------------------------------------------------------------------- */

/* From one GPU to another. */
typedef struct yk_link {
  int from, to;      /* CUDA ordinals */
  bool peer_access;  /* programs on `from` can reach the memory of `to`; where not, copies go through the host */
  bool is_measured;  /* what follows holds */
  double copy_gb_s;  /* 10^9 bytes a second, in copies of 32 MiB */
  double latency_us; /* of a copy of 4 bytes, in a chain of such */
  char error[YK_ERR_MESSAGE_BYTES]; /* why it could not be asked or measured; else "" */
} yk_link;

/* An all-reduce over all ranks with residual and norm, as after every row-parallel GEMM. */
typedef struct yk_all_reduce_time {
  int64_t n_bytes;
  double us;         /* median, of the slowest rank, in a chain that is recorded as a graph */
  const char *route; /* "one-shot", "two-shot" (both by stores into peers' memory), "nccl" */
} yk_all_reduce_time;

enum { YOKE_MAX_LINKS = YOKE_MAX_RANKS * (YOKE_MAX_RANKS - 1), YOKE_ALL_REDUCE_SIZES = 2 };

typedef struct yk_link_report {
  int n_links; /* n_devices * (n_devices - 1): every ordered pair */
  yk_link links[YOKE_MAX_LINKS];
  int n_all_reduces; /* 0 where they were not measured */
  yk_all_reduce_time all_reduces[YOKE_ALL_REDUCE_SIZES];
  char all_reduce_error[YK_ERR_MESSAGE_BYTES]; /* why they could not be measured or are wrong; else "" */
} yk_link_report;

/* yk_links_test - test the links between GPUs, and small all-reduces over them with the communicator that an engine
 *   would use: that the right values arrive, and how fast. What fails is told in *out.
 *   device_ids [n_devices]: CUDA ordinals, 1 to YOKE_MAX_RANKS of them, each once. measures: false asks only for peer
 *   access, which is instant; true takes about 200 MB on each GPU and some seconds, and others' work on the GPUs slows
 *   it down.
 *   Errors: YK_E_UNSUPPORTED (a build without CUDA), YK_E_INVAL (a GPU that is not there, or named twice). */
yk_status yk_links_test(const int *device_ids, int n_devices, bool measures, yk_link_report *out, yk_err *err);

/* ---- Machine ----------------------------------------------------------------------------------------------------- */

/* What the devices of this machine can do, measured without a model. A row is one measurement. */
typedef enum yk_machine_kind {
  YK_MACHINE_MEMORY,    /* bytes a second: "read", "copy" (bytes read and bytes written, both counted) */
  YK_MACHINE_GEMM,      /* operations a second, 2 m k n a product: "plain" (16-bit weights), "awq" (4-bit weights) */
  YK_MACHINE_LINK,      /* bytes a second: "copy" from one GPU to another, "both ways" at once, both counted */
  YK_MACHINE_LATENCY,   /* of a link: a copy of 4 bytes, in a chain of such; its rate says nothing and is 0 */
  YK_MACHINE_ALL_REDUCE /* bytes a second of the data that is reduced: "yoke", "yoke, add and norm", "nccl" */
} yk_machine_kind;

typedef struct yk_machine_row {
  yk_machine_kind kind;
  const char *method;         /* as above; a constant */
  int device, to;             /* CUDA ordinals; `to` of a link; -1: the CPU, or all of n_ranks devices */
  int n_ranks, n_threads;     /* ranks of an all-reduce, else 1; threads over all ranks on a CPU, else 0 */
  int64_t n_bytes;            /* of one operation as the rate counts them; of a GEMM: of its weights */
  int64_t m, k, n;            /* of a GEMM: rows, inputs, outputs; else 0 */
  double us, us_low, us_high; /* of one operation: the repeats' median, fastest and slowest; of the slowest rank */
  double rate;                /* bytes or operations a second, at the median */
  double bus_rate;            /* of an all-reduce, as nccl-tests define it: rate * 2 (n_ranks - 1) / n_ranks; else 0 */
  char error[YK_ERR_MESSAGE_BYTES]; /* why it could not be measured, or is wrong; then all figures are 0. Else "" */
} yk_machine_row;

enum { YOKE_MACHINE_ALL_REDUCES = 256 };

/* The limits that follow: no run can do better. Each is the slowest device's or link's, and 0 where nothing gave it. */
typedef struct yk_machine_limits {
  double memory_bytes_per_s; /* reads of one GPU; on CPU of the host with all threads, which all ranks share */
  double gemm_flops;         /* products with 16-bit weights of one GPU; on CPU likewise of the host */
  double link_bytes_per_s;   /* one way */
  int n_all_reduces;
  struct {
    int n_ranks;
    int64_t n_bytes;
    double us; /* of the fastest method */
  } all_reduces[YOKE_MACHINE_ALL_REDUCES];
} yk_machine_limits;

typedef struct yk_machine_options {
  yk_device_kind device; /* auto: CUDA where there is any device, else CPU */
  const int *device_ids; /* [n_devices] CUDA ordinals, each once; NULL: all, but at most YOKE_MAX_RANKS */
  int n_devices;         /* 0 where device_ids is NULL */
  int n_ranks;           /* CPU: all-reduces over 2 .. n_ranks ranks; default 2 */
  int n_cpu_threads;     /* CPU: threads over all ranks; 0: every core */
  /* Of each read and copy, more than caches hold, 1 MiB to 1 TiB; 0: 2 GiB on GPUs, 1 GiB on a CPU. */
  int64_t memory_bytes;
  int64_t gemm_m, gemm_k, gemm_n; /* 0: 4096, 4096, 24576 on GPUs, 64, 4096, 4096 on a CPU; k, n multiples of 128 */
  /* Sizes are 1 KiB, 4 KiB, 16 KiB, ... up to this, 1 KiB to 1 GiB; 0: 256 MiB on GPUs, 16 MiB on a CPU. */
  int64_t all_reduce_max_bytes;
  int n_repeats; /* 3 .. 100; default 9 */
  /* Called with each row once it is there, from the calling thread. May be NULL. */
  void (*on_row)(void *user, const yk_machine_row *row);
  void *on_row_user;
} yk_machine_options;

/* yk_machine_options_init - every default above. Call it first, so that new fields keep working. */
void yk_machine_options_init(yk_machine_options *options);

typedef struct yk_machine_report {
  yk_device_kind device; /* CPU or CUDA */
  size_t n_rows;
  yk_machine_row *rows; /* [n_rows], the report's own */
  yk_machine_limits limits;
} yk_machine_report;

/* yk_machine_measure - measure memory, GEMM, links and all-reduces, one after the other. Blocks for seconds to a
 *   minute. What fails is told in its row and the others go on, too little memory among it, with the bytes needed and
 *   those found; but after an error that leaves a GPU of no more use to the process all its later rows say so. Values
 *   of all-reduces and bytes of links are checked. Work of others on the devices slows it down.
 *   A report is for yk_machine_report_free, also after an error.
 *   Errors: YK_E_INVAL (an option; a GPU that is not there, or named twice), YK_E_UNSUPPORTED (CUDA where there is
 *   none), YK_E_NOMEM. Thread: any. */
yk_status yk_machine_measure(const yk_machine_options *options, yk_machine_report *out, yk_err *err);
void yk_machine_report_free(yk_machine_report *report);

/* yk_machine_kind_name - "memory", "gemm", "link", "latency", "all_reduce"; "unknown" for any other value. */
const char *yk_machine_kind_name(yk_machine_kind kind);

/* ---- Converting -------------------------------------------------------------------------------------------------- */

typedef enum yk_convert_format {
  YK_CONVERT_AWQ,   /* a Hugging Face directory in AWQ's "gemm" format */
  YK_CONVERT_KUIPER /* a file of KuiperLLama (magic "ak48", version 5) */
} yk_convert_format;

typedef struct yk_convert_options {
  const char *model_dir; /* as of yk_engine_options; of 4-bit integers in any format that it may have */
  const char *out;       /* AWQ: a directory that is not there, or empty; KuiperLLama: a file that is not there */
  yk_convert_format to;
  int64_t shard_bytes; /* AWQ: most data of a file, unless one tensor is more; default 5 GB */
  yk_log log;
  /* Called from the calling thread; false stops. May be NULL. */
  bool (*progress)(void *user, int64_t done_bytes, int64_t total_bytes);
  void *progress_user;
} yk_convert_options;

/* yk_convert_options_init - every default above. Call it first, so that new fields keep working. */
void yk_convert_options_init(yk_convert_options *options);

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

enum { YOKE_CALIBRATION_TOKENS = 8192, YOKE_CALIBRATION_ROWS = 512 };

typedef struct yk_quantize_options {
  const char *model_dir; /* a Hugging Face checkpoint of 16- or 32-bit weights */
  const char *out_dir;   /* made; or empty; or what an earlier call with the same options left unfinished */
  yk_quantize_method method;
  int32_t group_size;      /* inputs that share a scale: 32, 64, 128, or -1 for all; default 128 */
  const char *const *keep; /* [n_keep] modules stay that have one of these between dots of their names: "layers.0" */
  size_t n_keep;
  const char *calibration; /* AWQ: a text of UTF-8 [calibration_bytes]; else NULL */
  size_t calibration_bytes;
  int32_t calibration_tokens; /* AWQ: of the text's beginning; 16 to 2^20, default YOKE_CALIBRATION_TOKENS */
  yk_device_kind device;      /* auto: CUDA where there is any device, else CPU */
  int n_ranks;                /* 1 .. YOKE_MAX_RANKS devices, which take weight files in turn; default 1 */
  const int *device_ids;      /* [n_ranks] CUDA ordinals, or NULL for 0 .. n_ranks - 1 */
  int n_cpu_threads;          /* CPU: over all ranks; 0: every core */
  yk_log log;
  /* Called from the calling thread with what is being done: bytes of the checkpoint, or tokens of the text. False
   * stops: what is finished stays, and the same call goes on after it. May be NULL. */
  bool (*progress)(void *user, const char *what, int64_t done, int64_t total);
  void *progress_user;
} yk_quantize_options;

/* yk_quantize_options_init - every default above. Call it first, so that new fields keep working. */
void yk_quantize_options_init(yk_quantize_options *options);

typedef struct yk_quantize_report {
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
 *   YOKE_CALIBRATION_ROWS inputs of every layer in float32, and while it searches those inputs in host memory and up to
 *   4096 outputs of a layer in float32. On a GPU what is not host memory is the GPU's, with the largest layer's weight.
 *   Neither device nor number of ranks and threads changes a byte, but of AWQ the kind of device: GPUs calibrate with
 *   the model's 16-bit activations, CPUs with float32.
 *   Errors: YK_E_INVAL (an option; a name to keep that no module has), YK_E_IO (files; out_dir holds something else),
 *   YK_E_FORMAT (the checkpoint; a weight that is not finite, named), YK_E_UNSUPPORTED (a checkpoint that is quantised
 *   already; AWQ of an architecture that Yoke does not run), YK_E_CANCELLED (progress said so), YK_E_NOMEM,
 *   YK_E_CAPACITY (memory of a device; more ranks than GPUs), YK_E_DEVICE. */
yk_status yk_quantize(const yk_quantize_options *options, yk_quantize_report *out, yk_err *err);

/* yk_version - "0.2.0". */
const char *yk_version(void);

#ifdef __cplusplus
}
#endif
#endif
