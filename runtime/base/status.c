#include "base/status.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

_Static_assert(offsetof(yk_err, message) == 8 && sizeof(yk_err) == 264,
               "programs of earlier versions allocate a yk_err");

/* Drop a UTF-8 sequence that vsnprintf cut in the middle. */
static void trim_partial_utf8(char *text)
{
  size_t length = strlen(text);
  if (length + 1 < YK_ERR_MESSAGE_BYTES) return;
  size_t start = length;
  while (start > 0 && ((unsigned char)text[start - 1] & 0xC0) == 0x80) start--;
  if (start > 0 && ((unsigned char)text[start - 1] & 0x80)) start--;
  text[start] = '\0';
}

void yk_err_record(yk_err *err, yk_status code, const char *fmt, ...)
{
  if (!err || err->code != YK_OK) return;
  err->code = code;
  va_list args;
  va_start(args, fmt);
  vsnprintf(err->message, sizeof err->message, fmt, args);
  va_end(args);
  trim_partial_utf8(err->message);
}

void yk_err_prefix(yk_err *err, const char *fmt, ...)
{
  if (!err || err->code == YK_OK) return;
  char old[YK_ERR_MESSAGE_BYTES];
  memcpy(old, err->message, sizeof old);
  va_list args;
  va_start(args, fmt);
  int used = vsnprintf(err->message, sizeof err->message, fmt, args);
  va_end(args);
  if (used >= 0 && (size_t)used < sizeof err->message)
    snprintf(err->message + used, sizeof err->message - (size_t)used, ": %s", old);
  trim_partial_utf8(err->message);
}

void yk_err_clear(yk_err *err)
{
  *err = YK_ERR_INIT;
}

const char *yk_status_name(yk_status code)
{
  switch (code) {
  case YK_OK: return "ok";
  case YK_E_INVAL: return "invalid argument";
  case YK_E_NOMEM: return "out of memory";
  case YK_E_IO: return "input/output error";
  case YK_E_FORMAT: return "malformed file";
  case YK_E_UNSUPPORTED: return "not supported";
  case YK_E_CAPACITY: return "does not fit";
  case YK_E_DEVICE: return "device error";
  case YK_E_COMM: return "communication error";
  case YK_E_TIMEOUT: return "time limit passed";
  case YK_E_CANCELLED: return "cancelled";
  case YK_E_INTERNAL: return "internal error";
  case YK_E_AGAIN: return "nothing yet";
  }
  return "unknown status";
}
