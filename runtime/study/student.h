/* student.h - quantiles of Student's t distribution. */
#ifndef YK_STUDY_STUDENT_H
#define YK_STUDY_STUDENT_H

/* yk_student_quantile - t with P(|T| <= t) = confidence, for T with n degrees of freedom (any real number above 0).
 *   confidence in (0, 1). From the regularised incomplete beta function, P(|T| > t) = I_{n / (n + t^2)}(n / 2, 1 / 2)
 *   (DLMF 8.17; its continued fraction 8.17.22 by Lentz's method), inverted by bisection. Relative error below 1e-9.
 *   Thread: any. */
double yk_student_quantile(double confidence, double n);

#endif
