/* Products of rows with matrices, shared out in tiles: some panels of a matrix for a block of rows. */
#ifndef PRODUCTS_H
#define PRODUCTS_H

#include "run.h"

/* A matrix cut into ranges of panels, and rows into blocks. */
typedef struct Cut {
    int panels, width;      /* of the matrix, and of a range at most */
    int rows, blocks;
    int parts;              /* ranges × blocks */
} Cut;

/* Rows [first, end) by panels [panel, panels). */
typedef struct Tile {
    int block;
    int first, end;
    int panel, panels;
} Tile;

/* `multiple`: of how many panels a range must be. */
Cut cut_of(const Run *run, const Matrix *matrix, int rows, int multiple);

/* Parts of the same range follow each other, so that its weights are still at hand for all blocks. */
Tile tile_of(const Run *run, const Cut *cut, int part);

/* A tile's part of a product. */
Part part_of(const Matrix *matrix, const Inputs *rows, const Tile *tile, float *out, int stride, const void *next);

typedef struct Product {
    const Matrix *matrix;
    const Forms *rows;
    float *out;
    int wide;               /* floats from one row of out to the next */
} Product;

enum { MOST_PRODUCTS = 3 };

/* What is to be done with rows [first, end) that are through with all products. */
typedef void Finish(const Run *run, int layer, int first, int end);

/* A phase of the team: rows [0, rows) by each of `count` matrices. Waits for the others at its end. */
void products(const Run *run, Team *team, const Product *product, int count, int rows, Finish *finish, int layer);

#endif
