/* probe.c - a first use of a GPU with a time limit. A separate thread uses the GPU, so that the caller can abandon the
 * thread if the GPU does not answer. */
#include "kernels/cuda/device/probe.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/wait.h"

enum { TIMEOUT_S = 10, PROBE_BYTES = 4 << 20 };

/* Shared by the caller and the thread; freed by the last of the two. The mutex guards the members below it. */
typedef struct probe {
  int ordinal;
  pthread_mutex_t mutex;
  pthread_cond_t cv_done;
  bool is_done, is_abandoned;
  cudaError_t error;
} probe;

static void free_probe(probe *p)
{
  pthread_cond_destroy(&p->cv_done);
  pthread_mutex_destroy(&p->mutex);
  free(p);
}

static cudaError_t use_gpu(int ordinal)
{
  void *ptr = NULL;
  cudaError_t error = cudaSetDevice(ordinal);
  if (error == cudaSuccess) error = cudaMalloc(&ptr, PROBE_BYTES);
  if (error == cudaSuccess) error = cudaFree(ptr);
  cudaGetLastError();
  return error;
}

static void *run(void *argument)
{
  probe *p = argument;
  cudaError_t error = use_gpu(p->ordinal);
  pthread_mutex_lock(&p->mutex);
  p->error = error;
  p->is_done = true;
  bool is_last = p->is_abandoned;
  pthread_cond_signal(&p->cv_done);
  pthread_mutex_unlock(&p->mutex);
  if (is_last) free_probe(p);
  return NULL;
}

/* Returns whether the thread finished in time; if not, the thread owns the probe from then on. */
static bool wait_for(probe *p)
{
  struct timespec deadline = yk_wait_deadline(TIMEOUT_S);
  int failed = 0;
  pthread_mutex_lock(&p->mutex);
  while (!p->is_done && !failed) failed = pthread_cond_timedwait(&p->cv_done, &p->mutex, &deadline);
  bool is_done = p->is_done;
  p->is_abandoned = !is_done;
  pthread_mutex_unlock(&p->mutex);
  return is_done;
}

yk_status yk_cuda_probe(const yk_cuda_device *cuda, yk_err *err)
{
  pthread_t thread;
  probe *p = calloc(1, sizeof *p);
  if (!p) return yk_err_set(err, YK_E_NOMEM, "GPU %d: no memory for a probe", cuda->ordinal);
  p->ordinal = cuda->ordinal;
  pthread_mutex_init(&p->mutex, NULL);
  yk_cond_init(&p->cv_done);
  if (pthread_create(&thread, NULL, run, p) != 0) {
    free_probe(p);
    return yk_err_set(err, YK_E_DEVICE, "GPU %d: cannot start a thread", cuda->ordinal);
  }
  if (!wait_for(p)) {
    pthread_detach(thread);
    return yk_err_set(err, YK_E_DEVICE,
                      "GPU %d: earlier work of this process has not ended within %d s; a new process is needed",
                      cuda->ordinal, TIMEOUT_S);
  }
  pthread_join(thread, NULL);
  cudaError_t error = p->error;
  free_probe(p);
  return yk_cuda_check(cuda, error, "first use", err);
}
