// Signs in: node sign_in.js <bootstrap> <topic> <mechanism> <user> <password> [<file of the authority>]
// Prints one JSON line: the values read back, or the error.
'use strict'

const fs = require('node:fs')
const { Kafka, logLevel } = require('kafkajs')

const [bootstrap, topic, mechanism, username, password, authority] = process.argv.slice(2)
const kafka = new Kafka({
  clientId: 'ottla-test',
  brokers: [bootstrap],
  logLevel: logLevel.NOTHING,
  retry: { retries: 3 },
  ssl: authority ? { ca: [fs.readFileSync(authority)] } : false,
  sasl: { mechanism, username, password }
})

async function main () {
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic, messages: [{ value: 'one' }, { value: 'two' }] })
  await producer.disconnect()
  const consumer = kafka.consumer({ groupId: `${topic}-group` })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  const values = []
  await new Promise(resolve => consumer.run({
    eachMessage: async ({ message }) => {
      values.push(message.value.toString())
      if (values.length === 2) resolve()
    }
  }))
  await consumer.disconnect()
  return { values }
}

main()
  .catch(error => ({ error: `${error.name}: ${error.message}` }))
  .then(outcome => { console.log(JSON.stringify(outcome)); process.exit(0) })
