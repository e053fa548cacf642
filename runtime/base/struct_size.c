#include "base/struct_size.h"

#include <string.h>

enum { MOST_BYTES = 1 << 20 };

yk_status yk_struct_read(const char *name, const void *theirs, size_t oldest_bytes, void *ours, size_t our_bytes,
                         yk_err *err)
{
  size_t n_bytes;
  memcpy(&n_bytes, theirs, sizeof n_bytes);
  if (n_bytes < oldest_bytes || n_bytes > MOST_BYTES)
    return yk_err_set(err, YK_E_INVAL, "%s.struct_size: expected at least %zu, as %s_init sets it, found %zu", name,
                      oldest_bytes, name, n_bytes);
  for (size_t i = our_bytes; i < n_bytes; i++)
    if (((const char *)theirs)[i])
      return yk_err_set(err, YK_E_UNSUPPORTED,
                        "%s: expected 0 in byte %zu, after the %zu bytes of Yoke " YOKE_VERSION
                        ": a field of a later version is set",
                        name, i, our_bytes);
  memcpy(ours, theirs, n_bytes < our_bytes ? n_bytes : our_bytes);
  memcpy(ours, &our_bytes, sizeof our_bytes);
  return YK_OK;
}

void yk_struct_write(void *theirs, size_t their_bytes, const void *ours, size_t our_bytes)
{
  if (their_bytes < sizeof their_bytes) return;
  size_t n_bytes = their_bytes < our_bytes ? their_bytes : our_bytes;
  memcpy(theirs, ours, n_bytes);
  memset((char *)theirs + n_bytes, 0, their_bytes - n_bytes);
  memcpy(theirs, &their_bytes, sizeof their_bytes);
}
