/* engine_internal.h - the engine's own state, shared by engine.c (life), engine_loop.c (the engine thread), submit.c,
 * and the owners of sequences: request_owner.c and held_sequence.c.
 *
 * Threads: the engine thread alone uses ranks (except yk_ranks_check), pool, scheduler and builder. Callers reach the
 * engine thread through the inbox and calls. Locks: engine.mutex and each request's mutex; a thread never holds two of
 * them. */
#ifndef YK_ENGINE_ENGINE_INTERNAL_H
#define YK_ENGINE_ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/adapters.h"
#include "engine/loop/cache_salts.h"
#include "engine/loop/scheduler.h"
#include "engine/loop/step_builder.h"
#include "engine/machine/mpi_run.h"
#include "engine/machine/ranks.h"
#include "engine/observe/expert_counts.h"
#include "engine/observe/profiler_state.h"
#include "engine/request.h"
#include "text/tokenizer.h"
#include "yoke/process_group.h"

_Static_assert((int)YK_MAX_LOGPROBS == (int)YK_MAX_TOP_LOGPROBS, "the public limit of alternatives is the sampler's");

/* A step that the ranks run. */
typedef struct yk_flight {
  const yk_step *step;
  const yk_scheduled *items; /* [n_items] */
  int32_t n_items, n_prompt; /* n_prompt: prompt rows */
  yk_profiled_step profiled;
} yk_flight;

struct yk_engine {
  /* Fixed once created. */
  yk_settings settings;
  yk_engine_info info;
  yk_cluster *cluster;     /* the processes of the run; NULL: one */
  yk_mpi_run *mpi;         /* the MPI run that started the processes, or NULL; owned by the group if there is one */
  yk_process_group *group; /* the engine is one of several of a run, or NULL */
  bool has_one_clock;      /* all ranks' timestamps are of one clock */
  yk_model_config config;  /* without rules of quantisation */
  yk_generation_defaults generation;
  yk_pooling_config pooling;
  int32_t eos_ids[YK_MAX_EOS_IDS + 1]; /* ids of the checkpoint and of the tokenizer */
  int32_t n_eos_ids;
  yk_log log;
  uint64_t seed;
  yk_tokenizer *tokenizer;                 /* NULL if the checkpoint has no readable tokenizer */
  char no_tokenizer[YK_ERR_MESSAGE_BYTES]; /* the reason, if tokenizer is NULL */
  yk_grammars *grammars;                   /* NULL without a tokenizer; has its own locks */

  /* Engine thread only. */
  yk_ranks *ranks;
  yk_memory_pool *pool;
  yk_cache_salts salts;
  yk_scheduler *scheduler;
  yk_step_builder *builder;
  yk_cpu_pool *mask_threads;       /* NULL: the engine thread alone */
  yk_flight flights[YK_MAX_RANKS]; /* step number n at n % YK_MAX_RANKS, one for each pipeline stage at most */
  uint64_t n_begun, n_completed;   /* steps */
  int64_t completed_ns;            /* when the results of the last completed step were handed out */
  yk_request *undelivered;         /* linked by next_undelivered; none of these requests has ended */
  pthread_t thread;
  bool thread_started;

  atomic_uint n_cancels; /* grows with every cancellation: the loop searches for cancelled requests only then */
  atomic_uint n_requests;

  pthread_mutex_t mutex;  /* guards the fields below */
  pthread_cond_t cv_work; /* inbox or calls filled, or stopping */
  pthread_cond_t cv_call; /* signalled when a call was answered */
  struct yk_call *calls;  /* calls of waiting callers, oldest first */
  struct yk_call **calls_end;
  yk_request *inbox; /* submitted, oldest first, linked by next_submitted */
  yk_request **inbox_end;
  bool stopping;
  yk_err failure; /* code YK_OK while the ranks work */
  yk_engine_stats stats;
  yk_profiler profiler; /* partly owned by the engine thread, like experts */
  yk_expert_counts experts;
  yk_adapters adapters;
};

#endif
