'use strict';
const http = require('http');
const PORT = process.env.PORT || 8080;

function handle(req, res) {
  res.end('ok');
}

class Router {
  constructor() { this.routes = new Map(); }
}

const log = (line) => console.log(line);

module.exports = { handle, Router };
