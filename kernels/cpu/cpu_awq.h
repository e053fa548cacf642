/* cpu_awq.h - the operations of kernels/awq_quantize.h on the threads of a pool; results do not depend on the number
 * of threads. Each returns the least output * groups + group that cannot be quantised, or -1. Thread: the pool's
 * caller. */
#ifndef YK_KERNELS_CPU_AWQ_H
#define YK_KERNELS_CPU_AWQ_H

#include "base/cpu_pool.h"
#include "kernels/awq_quantize.h"
#include "kernels/device.h"

/* yk_awq_quantize - out = the quantised weight. */
int64_t yk_awq_quantize(yk_cpu_pool *pool, const yk_awq_floats *weight, const yk_awq_tensors *out);

/* yk_awq_errors - errors [n, k] = the quantised w, with n_scales and k_scales undone, minus w. */
int64_t yk_awq_errors(yk_cpu_pool *pool, const yk_awq_floats *weight, float *errors);

/* yk_awq_grams - grams [k / group, group, group] = for each group the mean over rows of x_i x_j.
 *   rows [n_rows, k]; x = rows / k_scales (NULL: 1). group: at most YK_AWQ_MAX_LIMITED_GROUP. */
void yk_awq_grams(yk_cpu_pool *pool, const float *rows, int64_t n_rows, int64_t k, int64_t group, const float *k_scales,
                  float *grams);

/* yk_awq_find_limits - see yk_awq_limits_args. */
int64_t yk_awq_find_limits(yk_cpu_pool *pool, const yk_awq_floats *weight, const float *grams, float *limits);

/* The operations of the table. awq_loss is for devices with float32 activations, whose GEMM it uses. */
yk_status yk_cpu_awq_quantize(yk_device *dev, const yk_awq_quantize_args *args, yk_err *err);
yk_status yk_cpu_awq_observe(yk_device *dev, const yk_awq_observe_args *args, yk_err *err);
yk_status yk_cpu_awq_loss(yk_device *dev, const yk_awq_loss_args *args, yk_err *err);
yk_status yk_cpu_awq_limits(yk_device *dev, const yk_awq_limits_args *args, yk_err *err);

#endif
