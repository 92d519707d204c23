/* Rows are brought to a root mean square of 1, and multiplied with a norm's weights. */
#ifndef NORM_H
#define NORM_H

/* to (count,) = from / √(mean of from² + epsilon) × weight; `to` may be `from`. */
void norm_write(float *to, const float *from, const float *weight, int count, float epsilon);

#endif
