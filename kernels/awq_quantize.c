#include "kernels/awq_quantize.h"

#include <inttypes.h>

yk_status yk_awq_check(const yk_awq_floats *weight, const yk_awq_found *found, yk_err *err)
{
  int64_t bad = found->first_bad, n_groups = weight->k / weight->group;
  if (bad < 0) return YK_OK;
  int64_t begin = bad % n_groups * weight->group;
  return yk_err_set(err, YK_E_FORMAT,
                    "output %" PRId64 ", inputs %" PRId64 " to %" PRId64
                    ": expected finite weights whose spread a float16 scale can hold (15 times 65504)",
                    bad / n_groups, begin, begin + weight->group - 1);
}
