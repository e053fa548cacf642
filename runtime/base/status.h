/* status.h - errors are values.
 *
 * Every function that can fail returns a yk_status and, on failure, fills a yk_err that the caller owns. The message
 * names what failed, what was expected and what was found ("model.norm.weight: expected shape [64], found [32]").
 * Nothing in the library exits, aborts or asserts on input. */
#ifndef YK_BASE_STATUS_H
#define YK_BASE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum yk_status {
  YK_OK = 0,
  YK_E_INVAL,       /* an argument or a request parameter is outside its legal range */
  YK_E_NOMEM,       /* host allocation failed */
  YK_E_IO,          /* the operating system refused to open, read or write */
  YK_E_FORMAT,      /* a file is malformed or contradicts itself */
  YK_E_UNSUPPORTED, /* well-formed, but not something Yoke implements */
  YK_E_CAPACITY,    /* does not fit: device memory, KV blocks, context length */
  YK_E_DEVICE,      /* a device operation failed */
  YK_E_COMM,        /* a communicator failed or was aborted */
  YK_E_TIMEOUT,     /* a time limit passed */
  YK_E_CANCELLED,   /* the caller cancelled, or the engine is stopping */
  YK_E_INTERNAL     /* a broken invariant of ours: please report it */
} yk_status;

enum { YK_ERR_MESSAGE_BYTES = 256 };

typedef struct yk_err {
  yk_status code;
  int rank; /* rank that failed, -1 where no rank is involved */
  char message[YK_ERR_MESSAGE_BYTES];
} yk_err;

#ifdef __cplusplus
#define YK_ERR_INIT (yk_err{YK_OK, -1, {0}})
#else
#define YK_ERR_INIT ((yk_err){YK_OK, -1, {0}})
#endif

#if defined(__GNUC__)
#define YK_PRINTF(fmt_index, arg_index) __attribute__((format(printf, fmt_index, arg_index)))
#else
#define YK_PRINTF(fmt_index, arg_index)
#endif

/* yk_err_set(err, code, fmt, ...) - record an error and return its code, so that failing is one line: return
 *   yk_err_set(err, ...). err may be NULL (only the code is returned). An error already recorded stays: the first one
 *   wins. A message longer than the buffer is cut at a UTF-8 boundary. A macro, so that the compiler sees which code
 *   comes back and knows the failing path from the other; code is evaluated twice. */
#define yk_err_set(err, code, ...) (yk_err_record((err), (code), __VA_ARGS__), yk_err_code(code))
void yk_err_record(yk_err *err, yk_status code, const char *fmt, ...) YK_PRINTF(3, 4);
static inline yk_status yk_err_code(yk_status code)
{
  return code;
}

/* yk_err_prefix - put "what: " before the recorded message, where a caller knows more than the callee (the file, the
 *   layer). Does nothing when no error is recorded. */
void yk_err_prefix(yk_err *err, const char *fmt, ...) YK_PRINTF(2, 3);

/* yk_err_clear - forget a recorded error before the struct is used again. */
void yk_err_clear(yk_err *err);

/* yk_status_name - "invalid argument", "out of memory", ...; never NULL. */
const char *yk_status_name(yk_status code);

/* YK_TRY - return the status of a failing call to our caller. The callee has filled err. */
#define YK_TRY(call)                                                                                                   \
  do {                                                                                                                 \
    yk_status yk_try_status_ = (call);                                                                                 \
    if (yk_try_status_ != YK_OK) return yk_try_status_;                                                                \
  } while (0)

#ifdef __cplusplus
}
#endif
#endif
