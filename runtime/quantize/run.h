/* run.h - the state of one call of yk_quantize. */
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
  yk_checkpoint *checkpoint; /* AWQ: the checkpoint for the model; else NULL */
  yk_quantize_output output;
  _Atomic int64_t done_bytes; /* out of the plan's total_bytes */
  _Atomic bool is_stopped;    /* set when the caller stops the run, or a rank has failed */
  pthread_mutex_t mutex;      /* guards the fields below */
  size_t next_file;           /* index in the plan of the next file to check */
  yk_quantize_report *report;
} yk_quantize_run;

/* Device memory, as large as the largest layer so far. */
typedef struct yk_quantize_buffer {
  void *memory;
  size_t n_bytes;
} yk_quantize_buffer;

/* Host memory for a transposed weight, as large as the largest so far; the owner frees the memory. */
typedef struct yk_quantize_rows {
  void *memory;
  size_t n_bytes;
} yk_quantize_rows;

/* A thread with a device, which writes one shard after another. */
typedef struct yk_quantize_rank {
  yk_quantize_run *run;
  int index; /* 0: the caller's thread, which reports progress */
  yk_device *dev;
  yk_awq_scales *scales;            /* NULL: weights are not scaled */
  yk_quantize_buffer weight, words; /* of the current layer */
  yk_quantize_buffer found;
  yk_quantize_rows rows; /* of the current layer, if it is transposed */
} yk_quantize_rank;

/* yk_quantize_progress - report progress to the caller, who may stop the run. Errors: YK_E_CANCELLED. */
yk_status yk_quantize_progress(const yk_quantize_rank *rank, const char *what, int64_t done, int64_t total,
                               yk_err *err);

/* yk_quantize_reserve - at least n_bytes of device memory; the previous content is lost. Errors: YK_E_CAPACITY. */
yk_status yk_quantize_reserve(const yk_quantize_rank *rank, yk_quantize_buffer *buffer, size_t n_bytes, yk_err *err);
void yk_quantize_release(const yk_quantize_rank *rank, yk_quantize_buffer *buffer);

/* yk_quantize_show - the device address of n_bytes of host memory, valid until the host memory changes: data itself on
 *   a device that shares the host's memory, else a copy in the buffer. Errors: YK_E_CAPACITY, YK_E_DEVICE. */
yk_status yk_quantize_show(const yk_quantize_rank *rank, yk_quantize_buffer *buffer, const void *data, size_t n_bytes,
                           const void **out, yk_err *err);

/* yk_quantize_rows_of - the weight of a tensor of floats [n, k], row-major: its data, or, if the tensor has a
 *   column_stride, a copy in the buffer. Errors: YK_E_NOMEM. */
yk_status yk_quantize_rows_of(const yk_tensor *tensor, yk_quantize_rows *buffer, const void **out, yk_err *err);

/* yk_quantize_found - wait for an operation and read its result: the loss, and whether the weight could be quantised.
 *   Errors: YK_E_FORMAT, YK_E_DEVICE. */
yk_status yk_quantize_found(const yk_quantize_rank *rank, const yk_awq_floats *weight, double *loss, yk_err *err);

#endif
