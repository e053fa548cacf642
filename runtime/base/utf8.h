/* utf8.h - UTF-8 one code point at a time. */
#ifndef YK_BASE_UTF8_H
#define YK_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define YK_UTF8_REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD, replaces bytes that are not UTF-8 */

enum { YK_UTF8_MAX_BYTES = 4 };

/* yk_utf8_sequence_bytes - length of the sequence according to its lead byte; 0 if no code point can begin with it. */
static inline size_t yk_utf8_sequence_bytes(unsigned char lead)
{
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
}

/* yk_utf8_may_continue - whether byte is legal at index (1..3) of a sequence that begins with lead. The second byte
 *   excludes overlong forms, surrogates and values past U+10FFFF (Unicode standard, table 3-7). */
static inline bool yk_utf8_may_continue(unsigned char lead, size_t index, unsigned char byte)
{
  unsigned char low = 0x80, high = 0xBF;
  if (index == 1) {
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  }
  return byte >= low && byte <= high;
}

/* yk_utf8_decode - the code point at text, which has n_bytes > 0 bytes left. Returns its length, 0 if it is
 * malformed. */
static inline size_t yk_utf8_decode(const char *text, size_t n_bytes, uint32_t *code_point)
{
  unsigned char lead = (unsigned char)text[0];
  if (lead < 0x80) {
    *code_point = lead;
    return 1;
  }
  size_t length = yk_utf8_sequence_bytes(lead);
  if (length == 0 || length > n_bytes) return 0;
  uint32_t value = lead & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; i++) {
    unsigned char byte = (unsigned char)text[i];
    if (!yk_utf8_may_continue(lead, i, byte)) return 0;
    value = value << 6 | (byte & 0x3Fu);
  }
  *code_point = value;
  return length;
}

/* yk_utf8_encode - write a code point (not a surrogate, at most U+10FFFF); returns its length. */
static inline size_t yk_utf8_encode(uint32_t code_point, char out[YK_UTF8_MAX_BYTES])
{
  if (code_point < 0x80) {
    out[0] = (char)code_point;
    return 1;
  }
  size_t length = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
  for (size_t i = length - 1; i > 0; i--) {
    out[i] = (char)(0x80u | (code_point & 0x3Fu));
    code_point >>= 6;
  }
  out[0] = (char)((0xF00u >> length & 0xFFu) | code_point);
  return length;
}

/* yk_utf8_valid_bytes - number of well-formed bytes at the start of text: n_bytes, or the offset of the first malformed
 *   byte. */
static inline size_t yk_utf8_valid_bytes(const char *text, size_t n_bytes)
{
  size_t at = 0;
  while (at < n_bytes) {
    uint32_t code_point;
    size_t length = yk_utf8_decode(text + at, n_bytes - at, &code_point);
    if (length == 0) break;
    at += length;
  }
  return at;
}

/* yk_utf8_character_begin - start of the character that ends at end > 0. */
static inline size_t yk_utf8_character_begin(const char *text, size_t end)
{
  do end--;
  while (end > 0 && ((unsigned char)text[end] & 0xC0) == 0x80);
  return end;
}

/* yk_utf8_drop_cut - length of text [n_bytes] without an incomplete character at its end. */
static inline size_t yk_utf8_drop_cut(const char *text, size_t n_bytes)
{
  for (size_t back = 1; back < YK_UTF8_MAX_BYTES && back <= n_bytes; back++) {
    unsigned char byte = (unsigned char)text[n_bytes - back];
    if ((byte & 0xC0) == 0x80) continue;
    return yk_utf8_sequence_bytes(byte) > back ? n_bytes - back : n_bytes;
  }
  return n_bytes;
}

/* yk_utf8_is_white_space - the Unicode property White_Space. */
static inline bool yk_utf8_is_white_space(uint32_t c)
{
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

#endif
