/* status.h - errors are values.
 *
 * Every function that can fail returns a yk_status and, on failure, fills a yk_err that the caller owns. The message
 * names the failed object, the expected value and the found value ("model.norm.weight: expected shape [64], found
 * [32]"). Nothing in the library exits, aborts or asserts on input. */
#ifndef YK_STATUS_H
#define YK_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum yk_status {
  YK_OK = 0,
  YK_E_INVAL,       /* an argument or a request parameter is outside its legal range */
  YK_E_NOMEM,       /* host allocation failed */
  YK_E_IO,          /* the operating system refused to open, read or write */
  YK_E_FORMAT,      /* a file is malformed or contradicts itself */
  YK_E_UNSUPPORTED, /* well-formed, but not implemented by Yoke */
  YK_E_CAPACITY,    /* does not fit: device memory, KV blocks, context length */
  YK_E_DEVICE,      /* a device operation failed */
  YK_E_COMM,        /* a communicator failed or was aborted */
  YK_E_TIMEOUT,     /* a time limit passed */
  YK_E_CANCELLED,   /* the caller cancelled, or the engine is stopping */
  YK_E_INTERNAL,    /* a broken invariant in Yoke: please report it */
  YK_E_AGAIN        /* nothing yet: call again */
} yk_status;

enum { YK_ERR_MESSAGE_BYTES = 256 };

/* Callers allocate this struct: its fields, their order and their sizes are the same in every version. */
typedef struct yk_err {
  yk_status code;
  int rank; /* rank that failed; -1: no rank is involved */
  char message[YK_ERR_MESSAGE_BYTES];
} yk_err;

#ifdef __cplusplus
#define YK_ERR_INIT (yk_err{YK_OK, -1, {0}})
#else
#define YK_ERR_INIT ((yk_err){YK_OK, -1, {0}})
#endif

/* yk_err_clear - clear a recorded error before the struct is used again: the first recorded error stays otherwise. */
void yk_err_clear(yk_err *err);

/* yk_status_name - "invalid argument", "out of memory", ...; never NULL. */
const char *yk_status_name(yk_status code);

#ifdef __cplusplus
}
#endif
#endif
