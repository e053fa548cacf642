#include "study/plot/scale.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "study/plot/drawing.h"

double yk_scale_at(const yk_scale *scale, double value)
{
  double low = scale->is_log ? log(scale->low) : scale->low, high = scale->is_log ? log(scale->high) : scale->high;
  double at = scale->is_log ? log(value) : value, span = high - low;
  return scale->from + (at - low) / (span != 0 ? span : 1) * (scale->to - scale->from);
}

void yk_ticks_add(yk_ticks *ticks, double value)
{
  if (ticks->n < YK_MAX_TICKS) ticks->at[ticks->n++] = value;
}

void yk_ticks_linear(double low, double high, double most, yk_ticks *out)
{
  static const double factors[] = {1, 2, 2.5, 5, 10};
  double rough = (high - low) / fmax(most, 1);
  if (!(rough > 0)) rough = 1;
  double size = pow(10, floor(log10(rough))), step = 10 * size;
  for (int i = 4; i >= 0; i--)
    if (factors[i] * size >= rough * 0.999) step = factors[i] * size;
  out->n = 0;
  for (double i = ceil(low / step - 1e-6); i * step <= high + step * 1e-6 && out->n < YK_MAX_TICKS; i++)
    yk_ticks_add(out, i * step + 0.0);
}

void yk_ticks_log(double low, double high, yk_ticks *out)
{
  static const struct {
    double most; /* maximum of high / low for these factors */
    size_t n;
    double factors[7];
  } kinds[] = {{12, 7, {1, 1.5, 2, 3, 4, 5, 7}}, {300, 3, {1, 2, 5}}, {INFINITY, 1, {1}}};
  size_t kind = high / low < kinds[0].most ? 0 : high / low < kinds[1].most ? 1 : 2;
  double decade = pow(10, floor(log10(low)));
  out->n = 0;
  while (decade <= high && out->n < YK_MAX_TICKS) {
    for (size_t i = 0; i < kinds[kind].n; i++)
      if (kinds[kind].factors[i] * decade >= low * 0.999 && kinds[kind].factors[i] * decade <= high * 1.001)
        yk_ticks_add(out, kinds[kind].factors[i] * decade);
    decade *= 10;
  }
}

void yk_ticks_doubled(double low, double high, yk_ticks *out)
{
  out->n = 0;
  for (double tick = exp2(ceil(log2(low))); tick <= high && out->n < YK_MAX_TICKS; tick *= 2) yk_ticks_add(out, tick);
}

void yk_ticks_thin(yk_ticks *ticks, const yk_scale *scale, yk_number_format format)
{
  yk_ticks kept = {.n = 0};
  double places[YK_MAX_TICKS], halves[YK_MAX_TICKS];
  char text[YK_NUMBER_TEXT];
  for (size_t i = 0; i < ticks->n; i++) {
    double value = ticks->at[i == 0 ? ticks->n - 1 : i - 1]; /* the last one first */
    double at = yk_scale_at(scale, value), half = yk_text_width(format(value, text), 11, false) / 2 + 5;
    bool fits = true;
    for (size_t k = 0; k < kept.n; k++) fits &= fabs(places[k] - at) > halves[k] + half;
    if (!fits) continue;
    places[kept.n] = at;
    halves[kept.n] = half;
    yk_ticks_add(&kept, value);
  }
  *ticks = kept;
}

const char *yk_format_readable(double value, char text[YK_NUMBER_TEXT])
{
  double size = fabs(value);
  if (!(size >= 1000) || size >= 1e15) {
    snprintf(text, YK_NUMBER_TEXT, "%.4g", value + 0.0);
    return text;
  }
  char digits[24];
  int n = snprintf(digits, sizeof digits, "%.0f", size), used = 0;
  if (value < 0) text[used++] = '-';
  for (int i = 0; i < n; i++) {
    if (i > 0 && (n - i) % 3 == 0) text[used++] = ',';
    text[used++] = digits[i];
  }
  text[used] = '\0';
  return text;
}

const char *yk_format_times(double value, char text[YK_NUMBER_TEXT])
{
  snprintf(text, YK_NUMBER_TEXT, "%.2f", value);
  return text;
}

const char *yk_format_percent(double value, char text[YK_NUMBER_TEXT])
{
  snprintf(text, YK_NUMBER_TEXT, "%.1f\u00a0%%", 100 * value);
  return text;
}

const char *yk_format_whole_percent(double value, char text[YK_NUMBER_TEXT])
{
  snprintf(text, YK_NUMBER_TEXT, "%.0f\u00a0%%", 100 * value);
  return text;
}

const char *yk_format_percents(double value, char text[YK_NUMBER_TEXT])
{
  snprintf(text, YK_NUMBER_TEXT, "%s%.0f", value <= -0.005 ? "\u2212" : "", 100 * fabs(value));
  return text;
}
