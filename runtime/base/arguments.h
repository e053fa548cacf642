/* arguments.h - checks of arguments to the public functions: arrays, integers and enums. Any thread. */
#ifndef YK_BASE_ARGUMENTS_H
#define YK_BASE_ARGUMENTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* yk_check_array - an array of n elements may be NULL only if n is 0. Errors: YK_E_INVAL naming the argument. */
static inline yk_status yk_check_array(const char *name, const void *array, size_t n, yk_err *err)
{
  if (array || n == 0) return YK_OK;
  return yk_err_set(err, YK_E_INVAL, "%s: expected an array of %zu, found NULL", name, n);
}

/* yk_check_i64 - an integer from min to max. Errors: YK_E_INVAL naming the argument and the range. */
static inline yk_status yk_check_i64(const char *name, int64_t value, int64_t min, int64_t max, yk_err *err)
{
  if (value >= min && value <= max) return YK_OK;
  return yk_err_set(err, YK_E_INVAL, "%s: expected %lld to %lld, found %lld", name, (long long)min, (long long)max,
                    (long long)value);
}

/* yk_check_enum - a value of an enum with members 0 to last. Errors: YK_E_INVAL naming the argument and the range. */
static inline yk_status yk_check_enum(const char *name, int value, int last, yk_err *err)
{
  if (value >= 0 && value <= last) return YK_OK;
  return yk_err_set(err, YK_E_INVAL, "%s: expected 0 to %d, found %d", name, last, value);
}

#endif
