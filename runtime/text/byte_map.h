/* byte_map.h - the byte-level alphabet of GPT-2: a printable character for every byte.
 *
 * Bytes that are printable in Latin-1 (0x21-0x7E, 0xA1-0xAC, 0xAE-0xFF) stand for themselves; the other 68, in
 * ascending order, are U+0100, U+0101, ... (Radford et al., encoder.py of GPT-2). */
#ifndef YK_TEXT_BYTE_MAP_H
#define YK_TEXT_BYTE_MAP_H

#include <stdint.h>

/* yk_byte_map_char - the code point that stands for a byte; at most U+0143, so at most two bytes of UTF-8. */
static inline uint32_t yk_byte_map_char(unsigned char byte)
{
  if (byte <= 0x20) return 0x100u + byte;
  if (byte >= 0x7F && byte <= 0xA0) return 0x100u + 0x21u + (byte - 0x7Fu);
  if (byte == 0xAD) return 0x143u;
  return byte;
}

/* yk_byte_map_byte - the byte that a code point stands for, or -1. */
static inline int yk_byte_map_byte(uint32_t code_point)
{
  if (code_point >= 0x100) {
    if (code_point <= 0x120) return (int)(code_point - 0x100);
    if (code_point <= 0x142) return (int)(code_point - 0x121 + 0x7F);
    return code_point == 0x143 ? 0xAD : -1;
  }
  return yk_byte_map_char((unsigned char)code_point) == code_point ? (int)code_point : -1;
}

#endif
