#include "fault/hook/fault_hook.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "model/model.h"

#ifdef YOKE_HAVE_CUDA
#include "fault/hook/cuda_faults.h"
#include "kernels/cuda/cuda_device.h"
#endif
#ifdef YOKE_HAVE_NCCL
#include "fault/hook/nccl_faults.h"
#endif

/* The requested fault. Written while no engine exists. */
typedef struct fault_plan {
  int rank, call;
  char operation[32], kind[32], until[128];
  double seconds;
} fault_plan;

static bool is_armed;
static fault_plan plan;
static atomic_int n_devices, n_calls;
static atomic_bool has_happened;
static const yk_device *faulty_device;
static atomic_bool has_model; /* the faulty device: graphs that run before measure, and are not decode steps */
static const yk_device_ops *device_ops; /* the real tables, and their replacements */
static yk_device_ops faulty_device_ops;
static const yk_comm_ops *comm_ops;
static yk_comm_ops faulty_comm_ops;
static volatile int *stop_spinning; /* memory that the GPU can read */

/* ---- The environment --------------------------------------------------------------------------------------------- */

static void read_word(const char *word)
{
  static const char *const kinds[] = {"error",           "skip",           "stall-host", "slow-host", "stall-gpu",
                                      "illegal-address", "launch-failure", "no-memory",  "bad-peer"};
  bool known = sscanf(word, "rank=%d", &plan.rank) == 1 || sscanf(word, "call=%d", &plan.call) == 1 ||
               sscanf(word, "seconds=%lf", &plan.seconds) == 1 || sscanf(word, "operation=%31s", plan.operation) == 1 ||
               sscanf(word, "fault=%31s", plan.kind) == 1 || sscanf(word, "until=%127s", plan.until) == 1;
  bool is_kind = !plan.kind[0];
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) is_kind |= strcmp(plan.kind, kinds[i]) == 0;
  if (known && is_kind) return;
  fprintf(stderr, "YOKE_FAULT: unknown: %s\n", word);
  exit(2);
}

__attribute__((constructor)) void fault_hook_arm(void)
{
  const char *text = getenv("YOKE_FAULT");
  char words[256] = "", *rest = NULL;
  plan = (fault_plan){.call = 1};
  if (text) snprintf(words, sizeof words, "%s", text);
  for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) read_word(word);
  is_armed = plan.operation[0] && plan.kind[0];
  faulty_device = NULL;
  atomic_store(&has_model, false);
  atomic_store(&n_devices, 0);
  atomic_store(&n_calls, 0);
  atomic_store(&has_happened, false);
}

bool fault_hook_happened(void)
{
  return atomic_load(&has_happened);
}

void fault_hook_release(void)
{
  if (stop_spinning) *stop_spinning = 1;
}

/* ---- The faults -------------------------------------------------------------------------------------------------- */

static bool is_kind(const char *kind)
{
  return strcmp(plan.kind, kind) == 0;
}

/* Whether this call of the operation has a fault. Must be called once per call of the operation. */
static bool is_due(const yk_device *dev, const char *operation)
{
  if (!is_armed || dev != faulty_device || strcmp(operation, plan.operation) != 0) return false;
  const int call = atomic_fetch_add(&n_calls, 1) + 1;
  if (call != plan.call) return call > plan.call && is_kind("slow-host");
  atomic_store(&has_happened, true);
  printf("hook: rank %d, %s, call %d: %s\n", plan.rank, operation, plan.call, plan.kind);
  fflush(stdout);
  return true;
}

static void sleep_for(double seconds)
{
  struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&left, NULL);
}

static void stall_host(void)
{
  static const double pause_s = 0.002;
  sleep_for(plan.seconds);
  while (plan.until[0] && access(plan.until, F_OK) != 0) sleep_for(pause_s);
}

#ifdef YOKE_HAVE_CUDA
static void queue_kernel(yk_device *dev)
{
  enum { FOR_EVER_S = 60 };
  if (strcmp(dev->ops->name, "cuda") != 0) return;
  cudaStream_t stream = yk_cuda_device_stream(dev);
  yk_cuda_device_activate(dev, NULL);
  if (is_kind("illegal-address")) cuda_fault_illegal_address(stream);
  if (is_kind("launch-failure")) cuda_fault_trap(stream);
  if (is_kind("stall-gpu")) cuda_fault_spin(stream, stop_spinning, plan.seconds > 0 ? plan.seconds : FOR_EVER_S);
}

/* Allocated with the device: a later allocation might wait for the spinning kernel. */
static void prepare_to_spin(yk_device *dev)
{
  void *memory = NULL;
  yk_cuda_device_activate(dev, NULL);
  if (!stop_spinning && cudaMallocHost(&memory, sizeof *stop_spinning) == cudaSuccess) stop_spinning = memory;
  if (stop_spinning) *stop_spinning = 0;
}
#endif

/* Before the real operation. Returns whether the operation is skipped; its result is then *status. */
static bool goes_wrong(yk_device *dev, const char *operation, yk_status *status, yk_err *err)
{
  *status = YK_OK;
  if (!is_due(dev, operation)) return false;
  if (is_kind("skip")) return true;
  if (is_kind("error")) {
    *status = yk_err_set(err, YK_E_DEVICE, "made to fail");
    return true;
  }
  if (is_kind("stall-host")) stall_host();
  if (is_kind("slow-host")) sleep_for(plan.seconds);
#ifdef YOKE_HAVE_NCCL
  if (is_kind("bad-peer")) nccl_fault_bad_peer();
#endif
#ifdef YOKE_HAVE_CUDA
  queue_kernel(dev);
#endif
  return false;
}

/* ---- The tables -------------------------------------------------------------------------------------------------- */

static yk_status faulty_alloc(yk_device *dev, size_t n_bytes, void **out, yk_err *err)
{
  yk_status status;
  if (is_kind("no-memory")) return device_ops->alloc(dev, is_due(dev, "alloc") ? SIZE_MAX / 2 : n_bytes, out, err);
  return goes_wrong(dev, "alloc", &status, err) ? status : device_ops->alloc(dev, n_bytes, out, err);
}

static yk_status faulty_linear_create(yk_device *dev, const yk_linear_spec *spec, yk_linear **out, yk_err *err)
{
  yk_status status;
  return goes_wrong(dev, "linear_create", &status, err) ? status : device_ops->linear_create(dev, spec, out, err);
}

static yk_status faulty_linear_forward(yk_device *dev, const yk_linear *linear, const yk_linear_args *args, yk_err *err)
{
  yk_status status;
  return goes_wrong(dev, "linear_forward", &status, err) ? status : device_ops->linear_forward(dev, linear, args, err);
}

static yk_status faulty_attention(yk_device *dev, const yk_attention_args *args, yk_err *err)
{
  yk_status status;
  return goes_wrong(dev, "attention", &status, err) ? status : device_ops->attention(dev, args, err);
}

static yk_status faulty_sample(yk_device *dev, const yk_sample_args *args, yk_err *err)
{
  yk_status status;
  return goes_wrong(dev, "sample", &status, err) ? status : device_ops->sample(dev, args, err);
}

static yk_status faulty_best_logits(yk_device *dev, const yk_best_logits_args *args, yk_err *err)
{
  yk_status status;
  return goes_wrong(dev, "best_logits", &status, err) ? status : device_ops->best_logits(dev, args, err);
}

static yk_status faulty_graph_run(yk_device *dev, const yk_graph *graph, yk_err *err)
{
  yk_status status;
  if (!atomic_load(&has_model)) return device_ops->graph_run(dev, graph, err);
  return goes_wrong(dev, "graph_run", &status, err) ? status : device_ops->graph_run(dev, graph, err);
}

static yk_status faulty_all_reduce_add_norm(yk_comm *comm, const yk_all_reduce_add_norm_args *args, yk_err *err)
{
  yk_status status;
  return goes_wrong(comm->dev, "all_reduce_add_norm", &status, err) ? status
                                                                    : comm_ops->all_reduce_add_norm(comm, args, err);
}

static yk_status faulty_gather(yk_comm *comm, void *data, int64_t n_bytes, yk_err *err)
{
  yk_status status;
  return goes_wrong(comm->dev, "gather", &status, err) ? status : comm_ops->gather(comm, data, n_bytes, err);
}

static yk_status faulty_await_writes(yk_comm *comm, yk_err *err)
{
  yk_status status;
  return goes_wrong(comm->dev, "await_writes", &status, err) ? status : comm_ops->await_writes(comm, err);
}

static void report_exit_handlers(void)
{
  fputs("hook: exit handlers\n", stderr);
}

/* The end is freed nevertheless; an error only makes destroy report another result. */
static bool faulty_destroy(yk_comm *comm)
{
  yk_status status;
  if (goes_wrong(comm->dev, "destroy", &status, NULL)) atexit(report_exit_handlers);
  return comm_ops->destroy(comm) && status == YK_OK;
}

static void interpose_device(yk_device *dev)
{
  if (atomic_fetch_add(&n_devices, 1) == plan.rank) faulty_device = dev;
  device_ops = dev->ops;
  faulty_device_ops = *dev->ops;
  faulty_device_ops.alloc = faulty_alloc;
  faulty_device_ops.linear_create = faulty_linear_create;
  faulty_device_ops.linear_forward = faulty_linear_forward;
  faulty_device_ops.attention = faulty_attention;
  faulty_device_ops.sample = faulty_sample;
  faulty_device_ops.best_logits = faulty_best_logits;
  if (dev->ops->graph_run) faulty_device_ops.graph_run = faulty_graph_run;
  dev->ops = &faulty_device_ops;
}

/* The replacements are made by the first rank of an engine alone: a rank that is ahead may already call them. */
static void interpose_comm(yk_comm *comm)
{
  if (comm->ops != comm_ops) {
    comm_ops = comm->ops;
    faulty_comm_ops = *comm->ops;
    faulty_comm_ops.all_reduce_add_norm = faulty_all_reduce_add_norm;
    faulty_comm_ops.gather = faulty_gather;
    faulty_comm_ops.destroy = faulty_destroy;
    if (comm->ops->await_writes) faulty_comm_ops.await_writes = faulty_await_writes;
  }
  comm->ops = &faulty_comm_ops;
}

/* ---- Entry points ------------------------------------------------------------------------------------------------ */

yk_status __real_yk_cpu_device_create(yk_dtype dtype, int n_threads, const yk_device_limits *limits, yk_device **out,
                                      yk_err *err);
yk_status __wrap_yk_cpu_device_create(yk_dtype dtype, int n_threads, const yk_device_limits *limits, yk_device **out,
                                      yk_err *err);
yk_status __wrap_yk_cpu_device_create(yk_dtype dtype, int n_threads, const yk_device_limits *limits, yk_device **out,
                                      yk_err *err)
{
  YK_TRY(__real_yk_cpu_device_create(dtype, n_threads, limits, out, err));
  interpose_device(*out);
  return YK_OK;
}

#ifdef YOKE_HAVE_CUDA
yk_status __real_yk_cuda_device_create(int ordinal, yk_dtype dtype, const yk_device_limits *limits, yk_device **out,
                                       yk_err *err);
yk_status __wrap_yk_cuda_device_create(int ordinal, yk_dtype dtype, const yk_device_limits *limits, yk_device **out,
                                       yk_err *err);
yk_status __wrap_yk_cuda_device_create(int ordinal, yk_dtype dtype, const yk_device_limits *limits, yk_device **out,
                                       yk_err *err)
{
  YK_TRY(__real_yk_cuda_device_create(ordinal, dtype, limits, out, err));
  prepare_to_spin(*out);
  interpose_device(*out);
  return YK_OK;
}
#endif

/* Called when a rank's thread receives its communicator. */
yk_status __real_yk_model_create(const yk_checkpoint *checkpoint, const yk_model_limits *limits, yk_device *dev,
                                 yk_comm *comm, void (*on_bytes)(void *user, int64_t n_bytes), void *user,
                                 yk_model **out, yk_err *err);
yk_status __wrap_yk_model_create(const yk_checkpoint *checkpoint, const yk_model_limits *limits, yk_device *dev,
                                 yk_comm *comm, void (*on_bytes)(void *user, int64_t n_bytes), void *user,
                                 yk_model **out, yk_err *err);
yk_status __wrap_yk_model_create(const yk_checkpoint *checkpoint, const yk_model_limits *limits, yk_device *dev,
                                 yk_comm *comm, void (*on_bytes)(void *user, int64_t n_bytes), void *user,
                                 yk_model **out, yk_err *err)
{
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  interpose_comm(comm);
  pthread_mutex_unlock(&mutex);
  YK_TRY(__real_yk_model_create(checkpoint, limits, dev, comm, on_bytes, user, out, err));
  if (dev == faulty_device) atomic_store(&has_model, true);
  return YK_OK;
}
