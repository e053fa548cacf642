/* profile.h - where the time of an engine's steps goes: sums over steps, and traces of single ones. */
#ifndef YOKE_API_PROFILE_H
#define YOKE_API_PROFILE_H

#include "yoke/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

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
  YK_TIME_PARTS,
  YK_MAX_TIME_PARTS = 32 /* later versions may have so many */
} yk_time_part;

/* yk_time_part_name - "gemm_qkv", "gemm_o", "gemm_gate_up", "gemm_down", "lm_head", "attention", "other_kernels",
 *   "all_reduce_transfer", "all_reduce_wait", "logits_gather", "sampling", "launch_gap", "host". */
const char *yk_time_part_name(yk_time_part part);

/* Sums over the steps that were timed. */
typedef struct yk_step_times {
  uint64_t n_steps;
  double step_s; /* from the start of a step to the start of the next, or its end */
  double part_s[YK_MAX_RANKS][YK_MAX_TIME_PARTS];
  uint64_t n_all_reduces;
  uint64_t slowest[YK_MAX_RANKS]; /* how often each rank was the last to come to an all-reduce */
  double timestamp_cost_s;        /* taken off step_s, and off the parts: what the timestamps themselves cost */
} yk_step_times;

typedef struct yk_profile {
  size_t struct_size;
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
void yk_engine_get_profile_sized(yk_engine *engine, yk_profile *out, size_t struct_size);
static inline void yk_engine_get_profile(yk_engine *engine, yk_profile *out)
{
  yk_engine_get_profile_sized(engine, out, sizeof *out);
}

/* Some steps as slices of time, operation by operation, in a file for Perfetto (ui.perfetto.dev) or
 * chrome://tracing. */
typedef struct yk_trace yk_trace;

enum { YK_TRACE_STEPS = 64 }; /* a good number: some megabytes */

/* yk_trace_create - open the file at path, which is written once max_steps steps are in it, or by yk_trace_finish.
 *   Errors: YK_E_INVAL, YK_E_IO (the file), YK_E_NOMEM. */
yk_status yk_trace_create(const char *path, int32_t max_steps, yk_trace **out, yk_err *err);

/* yk_engine_set_trace - time the engine's next steps, whatever its profile says, and put them into the trace until that
 *   is full; NULL: no more of them. A trace is one engine's at a time. It must outlive the engine, or be taken away. */
void yk_engine_set_trace(yk_engine *engine, yk_trace *trace);

/* yk_trace_finish - write what has not been written, and free the trace; no engine may have it. NULL is allowed.
 *   Errors: YK_E_IO, also of what was written before; YK_E_NOMEM where slices were lost. */
yk_status yk_trace_finish(yk_trace *trace, yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
