/* run.h - one call of yk_quantize: what its parts share. */
#ifndef YK_QUANTIZE_RUN_H
#define YK_QUANTIZE_RUN_H

#include <pthread.h>
#include <stdatomic.h>

#include "kernels/device.h"
#include "loader/checkpoint.h"
#include "quantize/output.h"
#include "quantize/quantize_plan.h"

typedef struct yk_awq_scales yk_awq_scales;

/* Shared by all ranks. */
typedef struct yk_quantize_run {
  const yk_quantize_options *options;
  yk_device_kind device; /* CPU or CUDA */
  yk_quantize_plan plan;
  yk_checkpoint *checkpoint; /* AWQ: as the model sees it; else NULL */
  yk_quantize_output output;
  _Atomic int64_t done_bytes; /* of the plan's total */
  _Atomic bool is_stopped;    /* the caller has said so, or a rank has failed */
  pthread_mutex_t mutex;      /* of what follows */
  size_t next_file;           /* of the plan, to be looked at */
  yk_quantize_report *report;
} yk_quantize_run;

/* Memory of a device, as large as the largest layer wanted. */
typedef struct yk_quantize_buffer {
  void *memory;
  size_t n_bytes;
} yk_quantize_buffer;

/* A thread with a device, which makes one shard after the other. */
typedef struct yk_quantize_rank {
  yk_quantize_run *run;
  int index; /* 0: the caller's thread, which tells of progress */
  yk_device *dev;
  yk_awq_scales *scales;            /* NULL: weights as they are */
  yk_quantize_buffer weight, words; /* of a layer */
  yk_quantize_buffer found;
} yk_quantize_rank;

/* yk_quantize_progress - tell the caller, who may stop the run. Errors: YK_E_CANCELLED. */
yk_status yk_quantize_progress(const yk_quantize_rank *rank, const char *what, int64_t done, int64_t total,
                               yk_err *err);

/* yk_quantize_reserve - at least n_bytes of the rank's device. What was there is lost. Errors: YK_E_CAPACITY. */
yk_status yk_quantize_reserve(const yk_quantize_rank *rank, yk_quantize_buffer *buffer, size_t n_bytes, yk_err *err);
void yk_quantize_release(const yk_quantize_rank *rank, yk_quantize_buffer *buffer);

/* yk_quantize_show - the address at which the rank's device sees n_bytes of host memory, from now until they change:
 *   the same on a device that shares the host's memory, else a copy in the buffer. Errors: YK_E_CAPACITY,
 *   YK_E_DEVICE. */
yk_status yk_quantize_show(const yk_quantize_rank *rank, yk_quantize_buffer *buffer, const void *data, size_t n_bytes,
                           const void **out, yk_err *err);

/* yk_quantize_found - what an operation has found, once it is over: its loss, and whether the weight could be
 *   quantised. Errors: YK_E_FORMAT, YK_E_DEVICE. */
yk_status yk_quantize_found(const yk_quantize_rank *rank, const yk_awq_floats *weight, double *loss, yk_err *err);

#endif
