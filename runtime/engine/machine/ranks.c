#include "engine/machine/ranks.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/cpu_pool.h"
#include "engine/machine/processes.h"
#include "engine/machine/rank_devices.h"
#include "engine/machine/remote_profiles.h"
#include "engine/machine/remote_sampling.h"
#include "model/step_message.h"
#include "parallel/rank_group.h"

enum {
  MAX_COUNTS = 1 << 22,  /* of experts in all layers */
  MAX_LOAD_THREADS = 32, /* per rank; with more, memory bandwidth is the limit */
  MESSAGE_STEP = 1,      /* the kinds of process 0's messages */
  MESSAGE_SAMPLING,      /* the arrays for sampling of the step before, if another process samples */
  MESSAGE_EXPERT_ROWS    /* the number of counts: read and gather them */
};

static const double LEAST_ADAPT_S = 600; /* to load an adapter, if steps have a time limit */
static const double REPORT_S = 2;        /* for other processes to exceed the same time limit, and to report that */

/* The next command of all ranks: load the checkpoint, run the step, read counts (each stage's first rank), or take an
 * adapter. The other pointers are NULL. */
typedef struct command {
  const yk_checkpoint *checkpoint;
  const yk_open_adapters *adapters; /* with the checkpoint */
  const yk_adapter *adapter;
  int32_t number;
  yk_err *errors; /* [n_local] results of taking the adapter, which fails no rank */
  const yk_step *step;
  int64_t *expert_rows;
} command;

typedef struct begun_step {
  command command;
  uint64_t number; /* of the command in the group */
  int n_messages;  /* to the followers */
  bool has_ended;
} begun_step;

struct yk_ranks {
  yk_settings settings;
  yk_cluster *cluster;          /* or NULL: one process; not owned */
  yk_err send_error;            /* process 0: of the last step's message */
  pthread_t waiter;             /* the thread that began the last step, and waits for it */
  bool is_judged;               /* process 0: judge_stall has run, and fails the cluster */
  bool has_answered;            /* another process: report_stall has answered the message of the current step */
  yk_remote_profiles *remote;   /* process 0 of several: profiles of the others' ranks */
  yk_remote_sampling *sampling; /* NULL: process 0 samples */
  yk_rank_devices devices;
  yk_model *models[YK_MAX_RANKS]; /* [n_local]; only the rank's thread uses its model while commands run */
  yk_rank_group *group;
  command command;                /* the last one that is not a step */
  begun_step steps[YK_MAX_RANKS]; /* step number n at n % YK_MAX_RANKS, from begin until wait */
  uint64_t n_begun, n_waited;     /* steps */
  bool is_loaded;                 /* models are complete; changes between commands only */
  _Atomic int64_t loaded_bytes;
  void (*progress)(void *user, int64_t done_bytes);
  void *progress_user;
};

/* One rank reports progress for all ranks. */
typedef struct load_counter {
  yk_ranks *ranks;
  bool reports;
} load_counter;

/* A rank's index in arrays over this process's ranks. */
static int index_of(const yk_ranks *ranks, int rank)
{
  return rank - ranks->settings.world.first_rank;
}

static void count_loaded(void *user, int64_t n_bytes)
{
  load_counter *counter = user;
  int64_t done = atomic_fetch_add(&counter->ranks->loaded_bytes, n_bytes) + n_bytes;
  if (counter->reports && counter->ranks->progress) counter->ranks->progress(counter->ranks->progress_user, done);
}

int64_t yk_ranks_loaded_bytes(const yk_ranks *ranks)
{
  return atomic_load(&ranks->loaded_bytes);
}

/* If the device does not compute on the host's cores, a rank loads with its share of the cores. */
static yk_status load(yk_ranks *ranks, int rank, const yk_checkpoint *checkpoint, yk_err *err)
{
  int index = index_of(ranks, rank);
  yk_device *dev = ranks->devices.devs[index];
  load_counter counter = {ranks, index == 0};
  yk_cpu_pool *lent = NULL;
  if (!dev->pool) {
    YK_TRY(yk_cpu_pool_create((int)yk_min_i64(ranks->settings.n_threads_per_rank, MAX_LOAD_THREADS), &lent, err));
    dev->pool = lent;
  }
  yk_status status = yk_model_create(checkpoint, &ranks->settings.limits, dev, ranks->devices.comms[index],
                                     count_loaded, &counter, &ranks->models[index], err);
  if (lent) dev->pool = NULL;
  yk_cpu_pool_destroy(lent);
  if (status == YK_E_DEVICE || status == YK_E_CAPACITY) yk_err_prefix(err, "rank %d, loading", rank);
  return status;
}

static yk_status run_command(void *context, int rank, const void *command_ptr, yk_err *err)
{
  yk_ranks *ranks = context;
  const command *c = command_ptr;
  yk_model **model = &ranks->models[index_of(ranks, rank)];
  if (c->step) return yk_model_forward(*model, c->step, err);
  if (c->expert_rows)
    return yk_world_group_rank(&ranks->settings.world, rank) == 0
               ? yk_model_read_expert_rows(*model, c->expert_rows, err)
               : YK_OK;
  if (c->adapter) {
    yk_model_adapt(*model, c->adapter, c->number, &c->errors[index_of(ranks, rank)]);
    return YK_OK;
  }
  YK_TRY(load(ranks, rank, c->checkpoint, err));
  for (int32_t i = 0; i < c->adapters->n; i++) YK_TRY(yk_model_adapt(*model, c->adapters->items[i], i + 1, err));
  return yk_model_connect(*model, err);
}

/* A stage waits for the stages before it, so an earlier stage's progress ranks below a later stage's, independent of
 * its operation. */
static int count_begun(void *context, int rank)
{
  enum { STAGE = 1 << 20 /* more than the operations of a step */ };
  const yk_ranks *ranks = context;
  if (!ranks->is_loaded) return 0;
  return yk_world_stage_of(&ranks->settings.world, rank) * STAGE +
         yk_model_n_begun(ranks->models[index_of(ranks, rank)]);
}

/* In a process other than process 0: report ranks that exceed the time limit of a step, and wait for the decision of
 * process 0 before the ranks' connections end. */
static void report_stall(yk_ranks *ranks, const yk_err *stall)
{
  const struct timespec pause = {.tv_nsec = 20000000};
  const int64_t begin_ns = yk_clock_now_ns();
  yk_err answer = {.code = YK_E_AGAIN, .rank = stall->rank};
  snprintf(answer.message, sizeof answer.message, "%d %s", count_begun(ranks, stall->rank), stall->message);
  ranks->has_answered = true;
  yk_cluster_answer(ranks->cluster, &answer, NULL);
  while (yk_cluster_check(ranks->cluster, NULL) == YK_OK && yk_clock_seconds_since(begin_ns) < 2 * REPORT_S)
    nanosleep(&pause, NULL);
}

/* In process 0, whose ranks wait for each other and for those of other processes: all exceed the limit at about the
 * same time, and the error names the process whose rank has begun the fewest operations. */
static void judge_stall(yk_ranks *ranks, const yk_err *stall)
{
  yk_cluster *cluster = ranks->cluster;
  yk_err missing = YK_ERR_INIT, last = *stall;
  ranks->is_judged = true; /* the failure below calls stop_ranks again */
  int least = stall->rank >= 0 ? count_begun(ranks, stall->rank) : INT_MAX, culprit = 0;
  const bool all_answered =
      yk_cluster_wait(cluster, REPORT_S, &missing) != YK_E_TIMEOUT || strncmp(missing.message, "process", 7) == 0;
  for (int process = 1; process < yk_cluster_n_processes(cluster) && all_answered; process++) {
    yk_err answer;
    int n, n_begun;
    yk_cluster_answer_of(cluster, process, &answer);
    if (answer.code != YK_E_AGAIN || sscanf(answer.message, "%d %n", &n_begun, &n) != 1 || n_begun >= least) continue;
    least = n_begun;
    culprit = process;
    last = (yk_err){.code = YK_E_TIMEOUT, .rank = answer.rank};
    snprintf(last.message, sizeof last.message, "%s", answer.message + n);
  }
  yk_cluster_blame(cluster, culprit, all_answered ? &last : &missing);
}

/* A rank's own failure ends the other processes at once. Only the thread that waits for the ranks exchanges
 * messages. */
static void stop_ranks(void *context, const yk_err *error)
{
  yk_ranks *ranks = context;
  const bool is_stall =
      error->code == YK_E_TIMEOUT && !ranks->is_judged && pthread_equal(ranks->waiter, pthread_self());
  if (ranks->cluster && !is_stall)
    yk_cluster_abort(ranks->cluster, error);
  else if (ranks->cluster && yk_cluster_process(ranks->cluster) == 0)
    judge_stall(ranks, error);
  else if (ranks->cluster)
    report_stall(ranks, error);
  for (int i = 0; i < ranks->settings.world.n_local && ranks->is_loaded; i++) yk_model_stop(ranks->models[i]);
}

/* Called by a thread of the cluster. */
static void lose_process(void *context, const yk_err *failure)
{
  yk_ranks *ranks = context;
  yk_rank_group_fail(ranks->group, failure);
}

static void describe(void *context, int rank, char *text, size_t n_bytes)
{
  const yk_ranks *ranks = context;
  if (!ranks->is_loaded) return;
  char place[64];
  yk_model_describe(ranks->models[index_of(ranks, rank)], place, sizeof place);
  if (ranks->settings.device == YK_DEVICE_CUDA)
    snprintf(text, n_bytes, "%s on GPU %d", place, ranks->settings.device_ids[rank]);
  else
    snprintf(text, n_bytes, "%s", place);
  if (ranks->settings.world.n_stages == 1) return;
  size_t used = strlen(text);
  snprintf(text + used, n_bytes - used, " in stage %d", yk_world_stage_of(&ranks->settings.world, rank));
}

/* GPU ranks may spin if the host has enough processors for every rank's thread and the engine's. */
static double spin_seconds(const yk_settings *s)
{
  const double decode_step_s = 0.02; /* nearly all decode steps take less */
  return s->device == YK_DEVICE_CUDA && sysconf(_SC_NPROCESSORS_ONLN) > 2 * s->world.n_local ? decode_step_s : 0;
}

static yk_status start(yk_ranks *ranks, yk_err *err)
{
  const yk_settings *s = &ranks->settings;
  YK_TRY(yk_rank_devices_open(s, ranks->cluster, &ranks->devices, err));
  yk_rank_group_ops ops = {.first_rank = s->world.first_rank,
                           .run = run_command,
                           .on_failure = stop_ranks,
                           .describe = describe,
                           .progress = count_begun,
                           .context = ranks,
                           .comms = ranks->devices.comms,
                           .spin_s = spin_seconds(s)};
  YK_TRY(yk_rank_group_create(s->world.n_local, &ops, &ranks->group, err));
  if (!ranks->cluster) return YK_OK;
  yk_cluster_watch(ranks->cluster, lose_process, ranks);
  YK_TRY(yk_remote_profiles_create(ranks->cluster, &ranks->remote, err));
  return yk_remote_sampling_create(s, ranks->cluster, &ranks->sampling, err);
}

yk_status yk_ranks_create(const yk_settings *settings, yk_cluster *cluster, yk_ranks **out, yk_err *err)
{
  yk_ranks *ranks = calloc(1, sizeof *ranks);
  if (!ranks) return yk_err_set(err, YK_E_NOMEM, "no memory for %d ranks", settings->world.n_local);
  ranks->settings = *settings;
  ranks->cluster = cluster;
  yk_status status = start(ranks, err);
  if (status != YK_OK) {
    yk_ranks_destroy(ranks);
    return status;
  }
  *out = ranks;
  return YK_OK;
}

yk_status yk_ranks_load(yk_ranks *ranks, const yk_checkpoint *checkpoint, const yk_open_adapters *adapters,
                        void (*progress)(void *user, int64_t done_bytes), void *user, yk_err *err)
{
  ranks->progress = progress;
  ranks->progress_user = user;
  ranks->command = (command){.checkpoint = checkpoint, .adapters = adapters};
  YK_TRY(yk_rank_group_run(ranks->group, &ranks->command, 0, err));
  ranks->is_loaded = true;
  return yk_processes_barrier(ranks->cluster, err);
}

/* ---- Steps ------------------------------------------------------------------------------------------------------- */

static void send_step(yk_ranks *ranks, const yk_step *step)
{
  yk_step_head head = yk_step_head_of(&step->counts);
  const struct iovec pieces[] = {{&head, sizeof head}, {step->block, step->layout.rank_bytes}};
  ranks->send_error = YK_ERR_INIT;
  yk_cluster_send(ranks->cluster, MESSAGE_STEP, pieces, 2, &ranks->send_error);
}

void yk_ranks_begin(yk_ranks *ranks, const yk_step *step)
{
  if (ranks->cluster) send_step(ranks, step);
  ranks->waiter = pthread_self();
  begun_step *begun = &ranks->steps[ranks->n_begun++ % YK_MAX_RANKS];
  begun->command = (command){.step = step};
  begun->number = yk_rank_group_begin(ranks->group, &begun->command);
  begun->n_messages = 1;
  begun->has_ended = false;
}

void yk_ranks_send_late(yk_ranks *ranks, const yk_step *step)
{
  if (!ranks->sampling || !yk_remote_sampling_has_arrays(step) || ranks->send_error.code != YK_OK) return;
  size_t rank_bytes = step->layout.rank_bytes;
  const struct iovec piece = {(char *)step->block + rank_bytes, step->layout.n_bytes - rank_bytes};
  yk_cluster_send(ranks->cluster, MESSAGE_SAMPLING, &piece, 1, &ranks->send_error);
  ranks->steps[(ranks->n_begun - 1) % YK_MAX_RANKS].n_messages++;
}

/* The results of a step that another process samples, and every follower's answers to its messages. */
static void take_answers(yk_ranks *ranks, const begun_step *begun, double timeout_s, yk_err *own)
{
  if (own->code == YK_OK) *own = ranks->send_error;
  if (own->code == YK_OK && ranks->sampling)
    yk_remote_sampling_take(ranks->sampling, begun->command.step, timeout_s, own);
  if (own->code == YK_E_TIMEOUT) judge_stall(ranks, own);
  for (int i = 0; i < begun->n_messages && own->code == YK_OK; i++) yk_cluster_wait(ranks->cluster, timeout_s, own);
}

/* An error of any process fails all of them. */
static yk_status settle(yk_ranks *ranks, yk_err *own, yk_err *err)
{
  if (own->code == YK_OK) return YK_OK;
  yk_processes_fail(ranks->cluster, own->code, own);
  yk_rank_group_fail(ranks->group, own); /* no further step runs, whichever process has failed */
  if (err && err->code == YK_OK) *err = *own;
  return own->code;
}

/* Waits for a step on the ranks of all processes. */
static yk_status end_step(yk_ranks *ranks, begun_step *begun, double timeout_s, yk_err *err)
{
  yk_err own = YK_ERR_INIT;
  if (begun->has_ended) return YK_OK;
  bool is_timed = begun->command.step->counts.is_timed;
  yk_status status = yk_rank_group_wait(ranks->group, begun->number, timeout_s, ranks->cluster ? &own : err);
  if (!ranks->cluster) return status;
  if (own.code == YK_OK) take_answers(ranks, begun, timeout_s, &own);
  if (own.code == YK_OK && is_timed) yk_remote_profiles_gather(ranks->remote, ranks->models, &own);
  begun->has_ended = own.code == YK_OK;
  return settle(ranks, &own, err);
}

yk_status yk_ranks_wait(yk_ranks *ranks, double timeout_s, yk_err *err)
{
  return end_step(ranks, &ranks->steps[ranks->n_waited++ % YK_MAX_RANKS], timeout_s, err);
}

/* ---- Following --------------------------------------------------------------------------------------------------- */

/* In the process that samples: the late arrays of a step, which process 0 sends once they are filled. */
static yk_status receive_sampling(yk_ranks *ranks, yk_step *step, yk_err *err)
{
  yk_cluster_message message = {0};
  if (yk_remote_sampling_has_arrays(step)) {
    YK_TRY(yk_remote_sampling_keep(ranks->sampling, step, err));
    YK_TRY(yk_cluster_receive(ranks->cluster, 0, &message, err));
    if (message.is_end || message.kind != MESSAGE_SAMPLING)
      return yk_err_set(err, YK_E_COMM, "message of process 0: expected arrays for sampling, found kind %u",
                        message.kind);
  }
  return yk_remote_sampling_complete(ranks->sampling, step, message.data, message.n_bytes, err);
}

static yk_status run_step(yk_ranks *ranks, const yk_cluster_message *message, yk_err *err)
{
  yk_step step;
  yk_err result = YK_ERR_INIT;
  YK_TRY(yk_step_message_read((void *)(uintptr_t)message->data, message->n_bytes, &ranks->settings.limits.step, &step,
                              err));
  const bool samples =
      ranks->sampling && yk_cluster_process(ranks->cluster) == yk_remote_sampling_process(ranks->sampling);
  if (samples) YK_TRY(receive_sampling(ranks, &step, err));
  ranks->has_answered = false;
  ranks->waiter = pthread_self();
  ranks->command = (command){.step = &step};
  yk_status status = yk_rank_group_run(ranks->group, &ranks->command, ranks->settings.step_timeout_s, &result);
  if (samples && status == YK_OK) YK_TRY(yk_remote_sampling_give(ranks->sampling, &step, err));
  if (!ranks->has_answered) YK_TRY(yk_cluster_answer(ranks->cluster, &result, err));
  if (samples && yk_remote_sampling_has_arrays(&step)) YK_TRY(yk_cluster_answer(ranks->cluster, &result, err));
  if (status != YK_OK) return yk_err_set(err, status, "%s", result.message);
  return step.counts.is_timed ? yk_remote_profiles_gather(ranks->remote, ranks->models, err) : YK_OK;
}

/* rows [n]: the counts of this process's ranks become those of all processes; a layer has counts in one process, or,
 * without stages, in process 0. */
static yk_status add_up_rows(yk_ranks *ranks, int64_t *rows, size_t n, yk_err *err)
{
  const yk_exchange exchange = yk_cluster_exchange(ranks->cluster);
  const size_t n_processes = (size_t)yk_cluster_n_processes(ranks->cluster);
  int64_t *all = calloc(n * n_processes, sizeof *all);
  if (!all) return yk_err_set(err, YK_E_NOMEM, "no memory for the counts of experts of %zu processes", n_processes);
  yk_status status = exchange.all_gather(&exchange, rows, n * sizeof *rows, all, err);
  for (size_t i = 0; i < n && status == YK_OK; i++) {
    rows[i] = 0;
    for (size_t process = 0; process < n_processes; process++) rows[i] += all[process * n + i];
  }
  free(all);
  return status;
}

static yk_status run_read_rows(yk_ranks *ranks, int64_t *rows, double timeout_s, yk_err *err)
{
  ranks->waiter = pthread_self();
  ranks->command = (command){0};
  ranks->command.expert_rows = rows;
  return yk_rank_group_run(ranks->group, &ranks->command, timeout_s, err);
}

static yk_status give_rows(yk_ranks *ranks, const yk_cluster_message *message, yk_err *err)
{
  uint64_t n = 0;
  yk_err result = YK_ERR_INIT;
  if (message->n_bytes == sizeof n) memcpy(&n, message->data, sizeof n);
  if (n < 1 || n > MAX_COUNTS)
    return yk_err_set(err, YK_E_COMM, "message of process 0: expected 1 to %d counts of experts, found %llu",
                      MAX_COUNTS, (unsigned long long)n);
  int64_t *rows = calloc(n, sizeof *rows);
  if (!rows) return yk_err_set(err, YK_E_NOMEM, "no memory for the counts of %llu experts", (unsigned long long)n);
  yk_status status = run_read_rows(ranks, rows, ranks->settings.step_timeout_s, &result);
  if (status != YK_OK) yk_err_set(err, status, "%s", result.message);
  if (status == YK_OK) status = yk_cluster_answer(ranks->cluster, &result, err);
  if (status == YK_OK) status = add_up_rows(ranks, rows, n, err);
  free(rows);
  return status;
}

yk_status yk_ranks_follow(yk_ranks *ranks, double timeout_s, bool *is_end, yk_err *err)
{
  yk_cluster_message message;
  *is_end = false;
  YK_TRY(yk_cluster_receive(ranks->cluster, timeout_s, &message, err));
  *is_end = message.is_end;
  if (message.is_end) return YK_OK;
  const yk_err fine = YK_ERR_INIT;
  if (message.kind == MESSAGE_SAMPLING) return yk_cluster_answer(ranks->cluster, &fine, err); /* for another process */
  if (message.kind == MESSAGE_STEP) return run_step(ranks, &message, err);
  if (message.kind == MESSAGE_EXPERT_ROWS) return give_rows(ranks, &message, err);
  return yk_err_set(err, YK_E_COMM, "message of process 0: expected a step, found kind %u", message.kind);
}

yk_status yk_ranks_check(const yk_ranks *ranks, yk_err *err)
{
  return ranks->cluster ? yk_cluster_check(ranks->cluster, err) : YK_OK;
}

/* ---- Other commands ---------------------------------------------------------------------------------------------- */

static yk_status end_steps(yk_ranks *ranks, double timeout_s, yk_err *err)
{
  for (uint64_t i = ranks->n_waited; i < ranks->n_begun; i++)
    YK_TRY(end_step(ranks, &ranks->steps[i % YK_MAX_RANKS], timeout_s, err));
  return YK_OK;
}

/* Counts of stages in other processes. Steps in flight end first, since their results and this gather would wait for
 * each other. */
static yk_status gather_rows(yk_ranks *ranks, int64_t *rows, size_t n, double timeout_s, yk_err *err)
{
  const uint64_t count = n;
  const struct iovec piece = {(void *)(uintptr_t)&count, sizeof count};
  yk_err own = YK_ERR_INIT;
  YK_TRY(end_steps(ranks, timeout_s, err));
  memset(rows, 0, n * sizeof *rows);
  yk_status status = yk_cluster_send(ranks->cluster, MESSAGE_EXPERT_ROWS, &piece, 1, &own);
  if (status == YK_OK) status = run_read_rows(ranks, rows, timeout_s, &own);
  if (status == YK_OK) status = yk_cluster_wait(ranks->cluster, timeout_s, &own);
  if (status == YK_OK) add_up_rows(ranks, rows, n, &own);
  return settle(ranks, &own, err);
}

yk_status yk_ranks_read_expert_rows(yk_ranks *ranks, int64_t *rows, size_t n, double timeout_s, yk_err *err)
{
  if (ranks->cluster && ranks->settings.world.n_stages > 1) return gather_rows(ranks, rows, n, timeout_s, err);
  return run_read_rows(ranks, rows, timeout_s, err);
}

/* Steps in flight end first, since their time limit is another one: reading an adapter may take longer. */
yk_status yk_ranks_adapt(yk_ranks *ranks, const yk_adapter *adapter, int32_t number, double timeout_s, yk_err *err)
{
  yk_err errors[YK_MAX_RANKS];
  YK_TRY(end_steps(ranks, timeout_s, err));
  for (int i = 0; i < ranks->settings.world.n_local; i++) errors[i] = YK_ERR_INIT;
  ranks->waiter = pthread_self();
  ranks->command = (command){.adapter = adapter, .number = number, .errors = errors};
  const double limit_s = timeout_s > 0 && timeout_s < LEAST_ADAPT_S ? LEAST_ADAPT_S : timeout_s;
  YK_TRY(yk_rank_group_run(ranks->group, &ranks->command, limit_s, err));
  for (int i = 0; i < ranks->settings.world.n_local; i++)
    if (errors[i].code != YK_OK) return yk_err_set(err, errors[i].code, "%s", errors[i].message);
  return YK_OK;
}

const yk_step_profile *yk_ranks_profile(const yk_ranks *ranks, int rank)
{
  if (!yk_world_is_local(&ranks->settings.world, rank)) return yk_remote_profiles_of(ranks->remote, rank);
  return yk_model_profile(ranks->models[index_of(ranks, rank)]);
}

bool yk_ranks_destroy(yk_ranks *ranks)
{
  const double grace_s = 5; /* time for a rank to return after it exceeded its time limit */
  if (!ranks) return true;
  if (ranks->cluster) yk_cluster_watch(ranks->cluster, NULL, NULL);
  if (!yk_rank_group_destroy(ranks->group, grace_s)) return false;
  for (int i = 0; i < ranks->settings.world.n_local; i++) yk_model_destroy(ranks->models[i]);
  bool all_freed = yk_rank_devices_close(&ranks->devices);
  yk_remote_profiles_destroy(ranks->remote);
  yk_remote_sampling_destroy(ranks->sampling);
  free(ranks);
  return all_freed;
}
