/* status.h - recording errors. Types and contract: yoke/status.h. */
#ifndef YK_BASE_STATUS_H
#define YK_BASE_STATUS_H

#include "yoke/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define YK_PRINTF(fmt_index, arg_index) __attribute__((format(printf, fmt_index, arg_index)))
#else
#define YK_PRINTF(fmt_index, arg_index)
#endif

/* yk_err_set(err, code, fmt, ...) - record an error and return its code, so that failing takes one line: return
 * yk_err_set(err, ...). err may be NULL (only the code is returned). An error already recorded stays: the first error
 * wins. A message longer than the buffer is cut at a UTF-8 boundary. A macro, so that the compiler sees the returned
 * code and can separate the failing path; code is evaluated twice. */
#define yk_err_set(err, code, ...) (yk_err_record((err), (code), __VA_ARGS__), yk_err_code(code))
void yk_err_record(yk_err *err, yk_status code, const char *fmt, ...) YK_PRINTF(3, 4);
static inline yk_status yk_err_code(yk_status code)
{
  return code;
}

/* yk_err_prefix - puts "what: " before the recorded message, when a caller has more context than the callee (the file,
 *   the layer). No effect if no error is recorded. */
void yk_err_prefix(yk_err *err, const char *fmt, ...) YK_PRINTF(2, 3);

/* YK_TRY - return the status of a failing call to the caller. The callee has filled err. */
#define YK_TRY(call)                                                                                                   \
  do {                                                                                                                 \
    yk_status yk_try_status_ = (call);                                                                                 \
    if (yk_try_status_ != YK_OK) return yk_try_status_;                                                                \
  } while (0)

#ifdef __cplusplus
}
#endif
#endif
