#include "base/quote.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

enum { PIECE_BYTES = 8 }; /* a character or its escape, and a NUL */

static bool is_unsafe(uint32_t c)
{
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x2028 || c == 0x2029 ||         /* C0, DEL, C1, line ends */
         c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) || /* bidirectional text */
         (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF;
}

/* Write the character at text, quoted, to piece; *piece_bytes: its length without the NUL. Returns the number of bytes
 * read. */
static size_t quote_one(const char *text, size_t n_bytes, char piece[PIECE_BYTES], size_t *piece_bytes)
{
  uint32_t c;
  size_t length = yk_utf8_decode(text, n_bytes, &c);
  int written;
  if (length && !is_unsafe(c)) {
    memcpy(piece, text, length);
    *piece_bytes = length;
    return length;
  }
  if (length == 0 || c < 0x80) {
    unsigned char byte = (unsigned char)text[0];
    char letter = byte == '\n' ? 'n' : byte == '\r' ? 'r' : byte == '\t' ? 't' : 0;
    written = letter ? snprintf(piece, PIECE_BYTES, "\\%c", letter) : snprintf(piece, PIECE_BYTES, "\\x%02x", byte);
    length = 1;
  } else {
    written = snprintf(piece, PIECE_BYTES, "\\u%04x", (unsigned)(c & 0xFFFF));
  }
  *piece_bytes = (size_t)written;
  return length;
}

size_t yk_quote(const char *text, size_t n_bytes, char *out, size_t out_bytes)
{
  char piece[PIECE_BYTES];
  size_t at = 0, written = 0, piece_bytes;
  while (at < n_bytes) {
    size_t taken = quote_one(text + at, n_bytes - at, piece, &piece_bytes);
    if (written + piece_bytes >= out_bytes) break;
    memcpy(out + written, piece, piece_bytes);
    written += piece_bytes;
    at += taken;
  }
  out[written] = '\0';
  return at;
}

void yk_quote_append(yk_strbuf *out, const char *text, size_t n_bytes)
{
  char quoted[256];
  for (size_t at = 0; at < n_bytes;) {
    at += yk_quote(text + at, n_bytes - at, quoted, sizeof quoted);
    yk_strbuf_append_str(out, quoted);
  }
}
