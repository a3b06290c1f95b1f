'use strict';

const { Transform } = require('node:stream');
const { StringDecoder } = require('node:string_decoder');
const { Parser } = require('./parser');
const { rowMapper, tidyNames } = require('./columns');

class CsvStream extends Transform {
  constructor(options = {}) {
    super({ readableObjectMode: true });
    this.decoder = new StringDecoder(options.encoding || 'utf8');
    this.types = options.types;
    this.mapRow = null;
    this.parser = new Parser(options, (row, line) => this.accept(row, line));
  }

  accept(row, line) {
    if (this.mapRow === null) {
      this.mapRow = rowMapper(tidyNames(row), this.types);
      return;
    }
    this.push(this.mapRow(row, line));
  }

  _transform(chunk, encoding, done) {
    try {
      this.parser.write(this.decoder.write(chunk));
      done();
    } catch (error) {
      done(error);
    }
  }

  _flush(done) {
    try {
      this.parser.write(this.decoder.end());
      this.parser.end();
      done();
    } catch (error) {
      done(error);
    }
  }
}

/** Gathers up to `size` records before the slow consumer is called, and waits for it. */
async function inBatches(source, size, consume) {
  let batch = [];
  for await (const record of source) {
    batch.push(record);
    if (batch.length === size) {
      await consume(batch);
      batch = [];
    }
  }
  if (batch.length > 0) {
    await consume(batch);
  }
}

module.exports = { CsvStream, inBatches };
