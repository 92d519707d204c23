/* The RMS norm (Zhang and Sennrich 2019, arXiv:1910.07467, eq. 4). */
#ifndef NORM_H
#define NORM_H

/* to (count,) = from / √(mean(from²) + epsilon) × weight. `to` may be `from`. */
void norm_write(float *to, const float *from, const float *weight, int count, float epsilon);

#endif
