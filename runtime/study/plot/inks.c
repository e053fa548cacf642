#include "study/plot/inks.h"

static const struct {
  const char *name;
  unsigned rgb[2]; /* light, dark */
} inks[YK_N_INKS] = {
    [YK_INK_NONE] = {"none", {0, 0}},
    [YK_INK_GROUND] = {"ground", {0xffffff, 0x14181b}},
    [YK_INK_TEXT] = {"text", {0x1b2226, 0xe6eaec}},
    [YK_INK_QUIET] = {"quiet", {0x525e66, 0xa9b4ba}},
    [YK_INK_GRID] = {"grid", {0xe6eaec, 0x2a3338}},
    [YK_INK_CONTROL] = {"control", {0x7c868d, 0x7b8890}},
    [YK_INK_FRONTIER] = {"frontier", {0xd9e4e8, 0x2c3c44}},
    [YK_INK_ON_FILL] = {"on-fill", {0xffffff, 0x10161a}},
    [YK_INK_SERIES] = {"c0", {0x1c248e, 0x6b89f9}},
    [YK_INK_SERIES + 1] = {"c1", {0x3d2393, 0x9086fc}},
    [YK_INK_SERIES + 2] = {"c2", {0x572392, 0xb183f8}},
    [YK_INK_SERIES + 3] = {"c3", {0x70248c, 0xce82ef}},
    [YK_INK_SERIES + 4] = {"c4", {0x872582, 0xe881e0}},
    [YK_INK_SERIES + 5] = {"c5", {0x9c2874, 0xfe83cc}},
    [YK_INK_SERIES + 6] = {"c6", {0xae2d63, 0xfc98b7}},
    [YK_INK_SERIES + 7] = {"c7", {0xbd364e, 0xfca7ad}},
    [YK_INK_SERIES + 8] = {"c8", {0xc74434, 0xffb3a5}},
    [YK_INK_SERIES + 9] = {"c9", {0xce5502, 0xffbfa3}},
    [YK_INK_SERIES + 10] = {"c10", {0xc66f04, 0xfecba3}},
    [YK_INK_SERIES + 11] = {"c11", {0xa8720f, 0xffd7a0}},
    [YK_INK_GEMM] = {"gemm", {0x2b5c97, 0x81b4f6}},
    [YK_INK_HEAD] = {"head", {0x5f3d8e, 0xc4a4fe}},
    [YK_INK_ATTENTION] = {"attention", {0x087970, 0x7cd7cc}},
    [YK_INK_OTHER] = {"other", {0x606a74, 0xaeb9c4}},
    [YK_INK_REDUCE] = {"reduce", {0xaf5a21, 0xfda573}},
    [YK_INK_WAIT] = {"wait", {0xa41b3b, 0xfc7e8b}},
    [YK_INK_SAMPLE] = {"sample", {0x676f22, 0xc8d386}},
    [YK_INK_HOST] = {"host", {0x5a4a34, 0xe1ceb5}},
};

unsigned yk_ink_rgb(yk_ink ink, yk_scheme scheme)
{
  return inks[ink].rgb[scheme == YK_SCHEME_DARK];
}

void yk_ink_append(yk_strbuf *out, yk_ink ink, yk_scheme scheme)
{
  if (ink == YK_INK_NONE)
    yk_strbuf_append_str(out, "none");
  else if (scheme == YK_SCHEME_PAGE)
    yk_strbuf_append_fmt(out, "var(--%s)", inks[ink].name);
  else
    yk_strbuf_append_fmt(out, "#%06x", yk_ink_rgb(ink, scheme));
}

void yk_inks_append_style(yk_strbuf *out, yk_scheme scheme)
{
  for (int i = YK_INK_GROUND; i < YK_N_INKS; i++)
    yk_strbuf_append_fmt(out, "--%s: #%06x; ", inks[i].name, yk_ink_rgb((yk_ink)i, scheme));
}
